"""Who and what may come in: before a request reaches the service, and around its answer.

A request is refused before its body is read where its head tells enough: from another site's page,
without the token, too large, or one too many. Else it has its body read up to the limit, its time,
a line in the log and its place in the metrics.
"""

import asyncio
import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hmac import compare_digest
from math import ceil
from time import monotonic
from urllib.parse import SplitResult, urlsplit
from uuid import uuid4

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jpr.serve.limits import Limits
from jpr.serve.log import tell
from jpr.serve.metrics import Metrics

LOCAL = ("127.0.0.1", "localhost", "::1")
_READING = ("GET", "HEAD")
_TELLING = ("/v1/", "/v2/", "/metrics")
"""What needs a token even to be read, wherever the app is mounted; the page, `/healthz` and
`/openapi.json` tell nothing of any document."""
_CLOSED = 499
"""The status, in logs alone, of requests whose client has gone."""
_NUMBER = re.compile("[0-9]+")
_DIGITS = 18
_NONE: Mapping[str, str] = {}
_LINGER = 2.0
"""Seconds for a client to send what nobody reads, so that it comes to read its answer."""


class Refusal(Exception):
    """An answer that is a sentence."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] = _NONE) -> None:
        """Say what is wrong and what to do."""
        super().__init__(message)
        self.status, self.message, self.headers = status, message, headers


@dataclass(frozen=True, slots=True)
class Door:
    """Whom the gate lets in."""

    token: str | None = None
    """Every request has to have it; None for no such check."""
    hosts: tuple[str, ...] = ()
    """The names by which the service may be called; none for any."""

    def check(self, method: str, path: str, headers: Mapping[str, str]) -> None:
        """Refuse what a page of another site sent, and who lacks the token.

        The names of hosts keep out pages whose own name was pointed at this machine.
        """
        host = headers.get("host", "")
        called = _split(f"//{host}")
        if self.hosts and (called is None or called.hostname not in self.hosts):
            raise Refusal(403, "this service is known by another name; use its own address")
        origin = headers.get("origin")
        page = None if origin is None else _split(origin)
        if origin is not None and (page is None or page.netloc != host):
            raise Refusal(403, "a page of another site may not ask; call the service yourself")
        if self.token is None or (
            method in _READING and not any(part in path for part in _TELLING)
        ):
            return
        kind, _, given = headers.get("authorization", "").partition(" ")
        same = compare_digest(given.strip(" \t").encode("latin-1"), self.token.encode())
        if kind.lower() != "bearer" or not same:
            told = {"www-authenticate": "Bearer"}
            raise Refusal(401, "send the token: Authorization: Bearer …", told)


def _split(url: str) -> SplitResult | None:
    """Return the parts of an address; None where it is none."""
    try:
        return urlsplit(url)
    except ValueError:
        return None


class Gate:
    """ASGI middleware around the whole service."""

    def __init__(
        self,
        app: ASGIApp,
        limits: Limits,
        door: Door,
        metrics: Metrics,
        pace: Callable[[], float],
    ) -> None:
        """Stand before an app; `pace` tells the seconds that a request takes of late."""
        self._app, self._limits, self._door = app, limits, door
        self._metrics, self._pace = metrics, pace
        self.waiting = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, answer = monotonic(), _Answer(send)
        scope.setdefault("state", {})["told"] = answer.told
        try:
            await self._let_in(scope, receive, answer)
        except Refusal as refusal:
            await answer.refuse(refusal, receive, self._limits.body)
        finally:
            self._note(scope, answer, monotonic() - begun)

    async def _let_in(self, scope: Scope, receive: Receive, answer: "_Answer") -> None:
        headers = {name.decode("latin-1"): v.decode("latin-1") for name, v in scope["headers"]}
        self._door.check(scope["method"], scope["path"], headers)
        if scope["method"] != "POST":
            await self._app(scope, receive, answer.send)
            return
        size = headers.get("content-length", "0")
        if not _NUMBER.fullmatch(size):
            raise Refusal(400, "the header Content-Length is no number of bytes")
        if len(size) > _DIGITS or int(size) > self._limits.body:
            raise self._too_large()
        if self.waiting >= self._limits.waiting:
            raise self._too_many()
        self.waiting += 1
        try:
            await self._serve(scope, receive, answer)
        finally:
            self.waiting -= 1

    async def _serve(self, scope: Scope, receive: Receive, answer: "_Answer") -> None:
        """Read the body, and let the app answer, while the client is there and time is left."""
        until = monotonic() + self._limits.seconds
        try:
            body = await asyncio.wait_for(self._body(receive), self._limits.seconds)
        except TimeoutError:
            raise Refusal(408, "the request did not come to its end in time") from None
        if body is None:
            answer.status = _CLOSED
            return
        answer.told["bytes"] = len(body)
        app = asyncio.ensure_future(self._app(scope, _whole(body), answer.send))
        gone = asyncio.ensure_future(receive())
        try:
            left = max(until - monotonic(), 0)
            await asyncio.wait({app, gone}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if app.done():
                app.result()
            elif gone.done():
                answer.status = _CLOSED
            else:
                raise Refusal(504, f"no answer within {self._limits.seconds:g} seconds; ask less")
        finally:
            await _ended(app, gone)

    async def _body(self, receive: Receive) -> bytes | None:
        """Read a body, up to the limit; None where the client has gone."""
        parts, size, more = [], 0, True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                return None
            part, more = message.get("body", b""), message.get("more_body", False)
            size += len(part)
            if size > self._limits.body:
                raise self._too_large()
            parts.append(part)
        return b"".join(parts)

    def _too_large(self) -> Refusal:
        told = f"a request has at most {self._limits.body:,} bytes; send less"
        return Refusal(413, told, {"connection": "close"})

    def _too_many(self) -> Refusal:
        seconds = min(max(ceil(self.waiting * self._pace()), 1), ceil(self._limits.seconds))
        told = f"{self.waiting} requests are waiting already; come again in {seconds} s"
        return Refusal(429, told, {"retry-after": str(seconds)})

    def _note(self, scope: Scope, answer: "_Answer", seconds: float) -> None:
        """Log and count a request; of paths that are not ours, nothing is told."""
        route = getattr(scope.get("route"), "path", "other")
        status = answer.status or 500
        self._metrics.count("jpr_requests_total", route=route, status=str(status))
        self._metrics.observe("jpr_request_seconds", seconds, route=route)
        tell(
            "request",
            id=answer.id,
            method=scope["method"],
            route=route,
            status=status,
            ms=round(1000 * seconds, 1),
            **answer.told,
        )


class _Answer:
    """What is sent to a client, watched."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.id = uuid4().hex
        self.status = 0
        """0 until an answer begins."""
        self.told: dict[str, object] = {}
        """What the service says of a request for the log: numbers."""

    async def send(self, message: Message) -> None:
        """Send on; the head gets the request's id."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            head = [*message.get("headers", ()), (b"x-request-id", self.id.encode())]
            message = {**message, "headers": head}
        await self._send(message)

    async def refuse(self, refusal: Refusal, receive: Receive, most: int) -> None:
        """Answer with a sentence, where no answer has begun.

        What the client still sends is read and forgotten: else it might not come to read.
        """
        if self.status:
            return
        body = json.dumps(sentence(refusal.message)).encode()
        own = {"content-type": "application/json", "content-length": str(len(body))}
        head = [(k.encode(), v.encode()) for k, v in {**own, **refusal.headers}.items()]
        await self.send({"type": "http.response.start", "status": refusal.status, "headers": head})
        await self.send({"type": "http.response.body", "body": body, "more_body": True})
        with suppress(TimeoutError):
            await asyncio.wait_for(_forgotten(receive, most), _LINGER)
        await self.send({"type": "http.response.body", "body": b""})


def sentence(message: str) -> dict[str, str]:
    """Return an error's body: clients of Cohere read its `message`, of Jina its `detail`."""
    return {"message": message, "detail": message}


async def _forgotten(receive: Receive, most: int) -> None:
    size = 0
    while size <= most:
        message = await receive()
        size += len(message.get("body", b""))
        if message["type"] != "http.request" or not message.get("more_body", False):
            return


def _whole(body: bytes) -> Receive:
    """Return what gives a body that was read."""
    messages = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> Message:
        return next(messages, {"type": "http.disconnect"})

    return receive


async def _ended(*tasks: "asyncio.Future[None] | asyncio.Future[Message]") -> None:
    """Cancel what is still at work and see it end."""
    late = [task for task in tasks if not task.done()]
    for task in late:
        task.cancel()
    await asyncio.gather(*late, return_exceptions=True)
