"""Reads request bodies in time and memory that their size does not multiply.

Python's and pydantic's readers of JSON hold all other threads up until they end; a client may name
any codec of Python for a form, and some take quadratic time.
"""

import asyncio
from collections.abc import Callable, Coroutine
from json import JSONDecodeError, JSONDecoder
from json.decoder import JSONArray, JSONObject  # type: ignore[attr-defined]  # not in typeshed
from json.scanner import py_make_scanner  # type: ignore[attr-defined]
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.types import Message, Receive

from jpr.serve.service import Service

_MAX_FIELDS = 100  # of a request's object
_MAX_CONTENT_TYPE = 200  # characters
_PART = 1 << 16  # bytes of a body that are read without a break


def read_json(body: bytes, max_values: int) -> object:
    """Read a request's JSON, with at most so many values in it; other threads get their turns.

    >>> read_json(b'{"k": [1, 2]}', 4)
    {'k': [1, 2]}
    """
    try:
        text = body.decode("utf-8-sig")
        value, end = _BoundedDecoder(max_values).raw_decode(text.lstrip(" \t\r\n"))
    except UnicodeDecodeError as error:
        raise HTTPException(400, "the body is not UTF-8; encode it so") from error
    rest = text.lstrip(" \t\r\n")[end:]
    if rest.strip(" \t\r\n"):
        raise JSONDecodeError("Extra data", text, len(text) - len(rest))
    if isinstance(value, dict) and len(value) > _MAX_FIELDS:
        raise HTTPException(422, f"{len(value):,} fields; see /openapi.json for those there are")
    return value


class _BoundedDecoder(JSONDecoder):
    """A decoder in Python, except for strings, that stops at its first value too many."""

    def __init__(self, max_values: int) -> None:
        super().__init__(parse_constant=_refuse_constant)
        self._left = self._max = max_values
        self.parse_array = lambda begun, scan: JSONArray(begun, self._counted(scan))
        self.parse_object = lambda begun, strict, scan, *hooks: JSONObject(
            begun, strict, self._counted(scan), *hooks
        )
        self.scan_once = py_make_scanner(self)

    def _counted(self, scan: Callable[..., tuple[Any, int]]) -> Callable[..., tuple[Any, int]]:
        def scan_one(text: str, at: int) -> tuple[Any, int]:
            self._left -= 1
            if self._left < 0:
                raise HTTPException(413, f"send at most {self._max:,} values in JSON")
            return scan(text, at)

        return scan_one


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


class BoundedRequest(Request):
    """A request whose JSON is read in a thread, and whose forms are UTF-8."""

    async def json(self) -> Any:  # noqa: ANN401  # any JSON
        """Return the body."""
        if not hasattr(self, "_json"):
            service: Service = self.app.state.service
            body = await self.body()
            self._json = await service.in_thread(read_json, body, service.limits.values)
        return self._json

    async def _get_form(self, **limits: Any) -> FormData:  # noqa: ANN401
        given = self.headers.get("content-type", "")
        if len(given) > _MAX_CONTENT_TYPE:
            raise HTTPException(415, f"Content-Type: at most {_MAX_CONTENT_TYPE} characters")
        kind, parameters = parse_options_header(given)
        if kind != b"multipart/form-data":
            raise HTTPException(422, "files: send them with Content-Type: multipart/form-data")
        if parameters.get(b"charset", b"utf-8").lower() != b"utf-8":
            raise HTTPException(415, "Content-Type: the charset of a form must be utf-8")
        return await super()._get_form(**limits)


class BoundedRoute(APIRoute):
    """A route whose requests are read so."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the function that answers a request."""
        answer = super().get_route_handler()

        async def answer_bounded(request: Request) -> Response:
            return await answer(BoundedRequest(request.scope, request.receive))

        return answer_bounded


def parts_of(body: bytes) -> Receive:
    """Return an ASGI `receive` that gives a body in parts, between which others get their turns."""
    parts = iter(range(0, max(len(body), 1), _PART))

    async def receive() -> Message:
        await asyncio.sleep(0)
        at = next(parts, None)
        if at is None:
            return {"type": "http.disconnect"}
        end = at + _PART
        return {"type": "http.request", "body": body[at:end], "more_body": end < len(body)}

    return receive
