"""ASGI middleware around the whole service: access, limits, deadline, log and metrics.

A request is rejected before its body is read where its headers are enough to decide. Otherwise
its body is read up to the limit, and the app answers until the deadline or a disconnect.
"""

import asyncio
from collections.abc import Collection
from contextlib import suppress
from math import ceil
from time import monotonic
from uuid import uuid4

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware.body_limit import RequestBodyLimitMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jpr.serve.access import AccessPolicy, client_key
from jpr.serve.bodies import parts_of
from jpr.serve.logs import log_event
from jpr.serve.responses import error_response
from jpr.serve.service import Service


class RequestMiddleware:
    """Checks, limits, logs and counts every request to an app."""

    def __init__(
        self,
        app: ASGIApp,
        service: Service,
        policy: AccessPolicy,
        paths: Collection[str] = (),
    ) -> None:
        """Guard an app; `paths` are those that logs may show of requests that it never gets."""
        self._app, self._service, self._policy, self._paths = app, service, policy, paths
        self._limits, self._metrics = service.limits, service.metrics
        self._limited = RequestBodyLimitMiddleware(self._answer, self._limits.body)
        self._pending: set[_Response] = set()  # admitted, and not yet sent
        self._metrics.waiting.set_function(lambda: len(self._pending))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        host = (scope.get("client") or ("",))[0]
        start, response = monotonic(), _Response(send, self._pending, client_key(host))
        response.log_fields["client"] = host
        state = scope.setdefault("state", {})
        state["log_fields"] = response.log_fields
        try:
            headers = Headers(scope=scope)
            if name := self._policy.check(scope["method"], scope["path"], headers, host):
                response.log_fields["token"] = response.client = name
            state["client"] = response.client
            if scope["method"] == "POST":
                await self._admit(scope, receive, response)
            else:
                await self._app(scope, receive, response.send)
        except HTTPException as error:
            await response.send_error(error, Request(scope, receive), self._limits.body)
        except ClientDisconnect:
            response.status = 499  # in logs and metrics only
        finally:
            self._record(scope, response, monotonic() - start)

    async def _admit(self, scope: Scope, receive: Receive, response: "_Response") -> None:
        has_some = any(one.client == response.client for one in self._pending)
        most = self._limits.waiting * (1 if has_some else 2)  # no client keeps all others out
        if (waiting := len(self._pending)) >= most:
            seconds = ceil(waiting * self._service.model.seconds_per_job)
            seconds = min(max(seconds, 1), ceil(self._limits.seconds))
            message = f"{waiting} requests are waiting already; retry in {seconds} s"
            raise HTTPException(429, message, {"retry-after": str(seconds)})
        self._pending.add(response)
        try:
            await self._limited(scope, receive, response.send)
        finally:
            self._pending.discard(response)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the body and let the app answer, until the deadline or a disconnect."""
        seconds, start = self._limits.seconds, monotonic()
        try:
            async with asyncio.timeout(seconds):
                body = await Request(scope, receive).body()
        except TimeoutError:
            raise HTTPException(408, "the request body did not arrive in time") from None
        except HTTPException as error:  # of Starlette's limit, which has no JSON
            message = f"the body is too large; send at most {self._limits.body:,} bytes"
            raise HTTPException(error.status_code, message, {"connection": "close"}) from None
        scope["state"]["log_fields"]["bytes"] = len(body)
        app = asyncio.ensure_future(self._app(scope, parts_of(body), send))
        gone = asyncio.ensure_future(receive())
        try:
            left = max(start + seconds - monotonic(), 0)
            await asyncio.wait({app, gone}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if app.done():
                app.result()
            elif gone.done():
                raise ClientDisconnect
            else:
                raise HTTPException(504, f"no response within {seconds:g} seconds; request less")
        finally:
            app.cancel()  # does nothing if it is done
            gone.cancel()
            await asyncio.gather(app, gone, return_exceptions=True)

    def _record(self, scope: Scope, response: "_Response", seconds: float) -> None:
        """Log and count a request; paths that are not routes are not revealed."""
        known = scope["path"] if scope["path"] in self._paths else "other"
        route = getattr(scope.get("route"), "path", known)
        status = response.status or 500
        self._metrics.requests.labels(route, str(status)).inc()
        self._metrics.seconds.labels(route).observe(seconds)
        log_event(
            "request",
            id=response.id,
            method=scope["method"],
            route=route,
            status=status,
            ms=round(1000 * seconds, 1),
            **response.log_fields,
        )


class _Response:
    """What is sent to a client, with the facts for the log."""

    def __init__(self, send: Send, pending: "set[_Response]", client: str) -> None:
        self._send, self._pending = send, pending
        self.client = client  # the name of its token or its address
        self.id = uuid4().hex
        self.status = 0  # until the response starts
        self.log_fields: dict[str, object] = {}  # counts that the app adds to the log line

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = [*message.get("headers", ()), (b"x-request-id", self.id.encode())]
            message = {**message, "headers": headers}
        elif not message.get("more_body", False):
            self._pending.discard(self)  # its client may send the next request
        await self._send(message)

    async def send_error(self, error: HTTPException, request: Request, limit: int) -> None:
        """Answer with an error, unless a response has started."""
        if self.status:
            return

        async def send(message: Message) -> None:
            await self.send({**message, "more_body": True} if "body" in message else message)

        response = error_response(error.status_code, error.detail, error.headers)
        await response(request.scope, request.receive, send)
        if "bytes" not in self.log_fields:
            await _drop_body(request, limit)
        await self.send({"type": "http.response.body", "body": b""})


async def _drop_body(request: Request, limit: int) -> None:
    """Read what is left for two seconds: a client that is still sending reads no response."""
    size = 0
    with suppress(TimeoutError, ClientDisconnect):
        async with asyncio.timeout(2):
            async for part in request.stream():
                size += len(part)
                if size > limit:
                    return
