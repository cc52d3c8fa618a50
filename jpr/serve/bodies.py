"""The bodies of requests: JSON that is read in a thread, and forms in UTF-8."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from python_multipart.multipart import parse_options_header
from starlette.exceptions import HTTPException
from starlette.types import Message, Receive

from jpr.serve.bounded_json import TooManyValuesError, read_json
from jpr.serve.service import Service

_MAX_FIELDS = 100  # of a request's object
_MAX_CONTENT_TYPE = 200  # characters
_PART = 1 << 16  # bytes of a body that are read without a break


class BoundedRequest(Request):
    """A request whose JSON is read in a thread; its sender cannot name any codec for a form."""

    async def json(self) -> Any:  # noqa: ANN401  # any JSON
        """Return the body."""
        if not hasattr(self, "_json"):
            service: Service = self.app.state.service
            body = await self.body()
            try:
                self._json = await service.in_thread(
                    partial(read_json, body, service.limits.values), self.state.client
                )
            except TooManyValuesError as error:
                raise HTTPException(413, str(error)) from error
            if isinstance(self._json, dict) and len(self._json) > _MAX_FIELDS:
                raise HTTPException(422, f"send at most {_MAX_FIELDS} fields; see /openapi.json")
        return self._json

    def form(self, **limits: Any) -> Any:  # noqa: ANN401  # Starlette's type is private
        """Return what gives the form."""
        given = self.headers.get("content-type", "")
        if len(given) > _MAX_CONTENT_TYPE:
            raise HTTPException(415, f"Content-Type: at most {_MAX_CONTENT_TYPE} characters")
        kind, parameters = parse_options_header(given)
        if kind != b"multipart/form-data":
            raise HTTPException(422, "files: send them with Content-Type: multipart/form-data")
        if parameters.get(b"charset", b"utf-8").lower() != b"utf-8":
            raise HTTPException(415, "Content-Type: the charset of a form must be utf-8")
        return super().form(**limits)


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
    parts = (body[at : at + _PART] for at in range(0, len(body), _PART))
    messages = ({"type": "http.request", "body": part, "more_body": True} for part in parts)
    end = iter([{"type": "http.request"}])

    async def receive() -> Message:
        await asyncio.sleep(0)
        return next(messages, None) or next(end, {"type": "http.disconnect"})

    return receive
