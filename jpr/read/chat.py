"""A client for endpoints that speak OpenAI's chat protocol: deadline, retries, size limit.

It is written over urllib: httpx has no deadline for a whole request either, and would bring six
packages into the core.
"""

import json
import os
import re
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from threading import TIMEOUT_MAX, Thread
from time import monotonic
from typing import Any, TypeVar
from urllib.error import URLError
from urllib.request import HTTPHandler, HTTPSHandler, OpenerDirector, ProxyHandler, Request

from jpr.errors import ConfigError

T = TypeVar("T")
Messages = Sequence[dict[str, str]]
_URL = re.compile(r"https?://((?:[\w.-]+|\[[\da-fA-F:.]+])(?::\d+)?)(?:/[\w./%~:+,=-]*)?", re.A)
_TOKEN = re.compile(r"[!#-&(-\[\]-~]*")
SETTINGS = {"temperature": 0, "response_format": {"type": "json_object"}}
"""Sent with every request; one that a server rejects is left out."""
_BACKOFF = 0.25  # seconds before the first retry; doubled for each later one
_MAX_BYTES = 4 << 20


@dataclass(eq=False)
class ChatFailure(Exception):
    """Why a request failed, what to do, and whether to retry it or to send a smaller one."""

    problem: str
    advice: str
    retry: bool = False
    wait: float = 0.0
    rejected: bool = False

    def __str__(self) -> str:
        return f"{self.problem}; {self.advice}"


class ChatEndpoint:
    """A model behind a URL; threads may share it."""

    def __init__(
        self, url: str, model: str, token: str | None, timeout: float, retries: int
    ) -> None:
        """Check the settings; see `LlmReader`."""
        host = _URL.fullmatch(url)
        if not host:  # not quoted: it may contain a password
            raise ConfigError("url: give one such as https://host/v1, without a password or query")
        token = (os.environ.get("OPENAI_API_KEY", "") if token is None else token).strip()
        if not _TOKEN.fullmatch(token):
            raise ConfigError("a token (or OPENAI_API_KEY) must be ASCII without spaces and quotes")
        if not 0 < timeout <= TIMEOUT_MAX or retries < 0:
            raise ConfigError(f"timeout {timeout} must be above 0, retries {retries} 0 or more")
        self.url, self.host, self.model = url.rstrip("/"), host[1], model
        self._token, self._timeout, self._retries = token, timeout, retries
        self._opener = OpenerDirector()  # without handlers that follow redirects
        for handler in (ProxyHandler(), HTTPHandler(), HTTPSHandler()):
            self._opener.add_handler(handler)

    def complete(self, messages: Messages, parse: Callable[[str], T], cancelled: Future[Any]) -> T:
        """Return the parsed completion; retry while time is left, or raise a ChatFailure."""
        end, attempt, settings = monotonic() + self._timeout, 0, dict(SETTINGS)
        while True:
            try:
                body = {"model": self.model, "messages": messages, **settings}
                return parse(_content(self._post(body, end, cancelled)))
            except ChatFailure as failure:
                named = next((one for one in settings if one in failure.problem), "response_format")
                if failure.rejected and settings.pop(named, None) is not None:
                    continue
                pause = max(failure.wait, _BACKOFF * 2**attempt)
                if not failure.retry or attempt == self._retries or pause >= end - monotonic():
                    raise
            wait([cancelled], pause)
            attempt += 1

    def _post(self, body: dict[str, object], end: float, cancelled: Future[Any]) -> bytes:
        """Return the reply, or raise a ChatFailure in time, even if the exchange hangs."""
        future: Future[bytes] = Future()

        def exchange() -> None:
            try:
                future.set_result(self._exchange(body, end))
            except Exception as error:
                future.set_exception(error)

        Thread(target=exchange, daemon=True).start()
        try:
            wait([future, cancelled], max(end - monotonic(), 0), FIRST_COMPLETED)
            return future.result(0)
        except (OSError, HTTPException, UnicodeError, OverflowError) as error:
            reason = error.reason if isinstance(error, URLError) else error
            if isinstance(reason, TimeoutError):
                problem = f"gave no answer within {self._timeout:g} s"
                raise ChatFailure(problem, "give a longer timeout or fewer passages") from error
            problem = f"cannot be reached ({_one_line(str(reason) or type(reason).__name__)})"
            raise ChatFailure(problem, "check that the server runs, and the url", True) from error

    def _exchange(self, body: dict[str, object], end: float) -> bytes:
        headers = {"Content-Type": "application/json", "User-Agent": "jpr"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        sent = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        request = Request(f"{self.url}/chat/completions", sent, headers, method="POST")
        received = bytearray()
        with self._opener.open(request, timeout=max(end - monotonic(), 0.001)) as response:
            while piece := response.read1(1 << 16):
                received += piece
                if len(received) > _MAX_BYTES:
                    raise ChatFailure(f"sent more than {_MAX_BYTES >> 20} MB", "check the url")
                if monotonic() > end:
                    raise TimeoutError
            if not 200 <= response.status < 300:
                raise _refusal(response, bytes(received), self._token)
        return bytes(received)


def _refusal(response: HTTPResponse, received: bytes, token: str) -> ChatFailure:
    """Return the meaning of an error status; a token that the server echoes is masked."""
    status, detail = response.status, ""
    with suppress(ValueError, RecursionError):  # HTML and the like are left out
        body = json.dumps(json.loads(received), ensure_ascii=False)
        detail = _one_line(body, token) if status != 401 else ""
    problem = f"answered with status {status}" + (f" ({detail})" if detail else "")
    if status in (401, 403):
        return ChatFailure(problem, "check the token (or OPENAI_API_KEY) and its permissions")
    if status in (400, 413, 422):
        return ChatFailure(problem, "give fewer passages or another model", rejected=status != 413)
    if status == 429 or status >= 500:
        after = re.fullmatch(r"[0-9]{1,9}(\.[0-9]+)?", response.headers.get("Retry-After", ""))
        return ChatFailure(problem, "try again later", True, float(after[0]) if after else 0.0)
    if status < 400:
        return ChatFailure(problem, "give the url to which it redirects")
    return ChatFailure(problem, "check the url (most end in /v1) and the name of the model")


def _one_line(text: str, secret: str = "") -> str:
    """Return the beginning of a server's message, fit for one line of a terminal."""
    line = "".join(sign for sign in " ".join(text.split()) if sign.isprintable())
    return (line.replace(secret, "***") if secret else line)[:200]


def _content(received: bytes) -> str:
    with suppress(ValueError, RecursionError, LookupError, TypeError):
        content = json.loads(received)["choices"][0]["message"]["content"]
        if isinstance(content, str):
            return content
    raise ChatFailure("sent no chat completion", "check the url (most end in /v1)", True)
