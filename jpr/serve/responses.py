"""JSON responses; every error is one sentence, wherever it was raised."""

from collections.abc import Mapping
from http import HTTPStatus

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from jpr.errors import JprError
from jpr.io.json_files import strict_json
from jpr.serve.limits import FULL, lacking
from jpr.serve.logs import log_event

HANDLED = (HTTPException, RequestValidationError, JprError, RecursionError, Exception)
"""The errors that `handle_error` answers; the framework calls it for each by its class."""
_MAX_NAME = 100  # characters of a field's name that an error repeats
_HINTS = {404: "no such path; see /openapi.json", 405: "method not allowed; use POST or GET"}
_REASONS = {
    "missing": "is missing",
    "extra_forbidden": "is not a known field",
    "too_short": "give at least one",
}


class StrictJson(JSONResponse):
    """JSON that every client can parse, whatever a document held."""

    def render(self, content: object) -> bytes:
        """Return the body."""
        return strict_json(content).encode()


def error_response(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return an error: clients of Cohere read its `message`, of Jina its `detail`."""
    return StrictJson({"message": message, "detail": message}, status, headers)


async def handle_error(request: Request, error: Exception) -> Response:
    """Return the response to an error."""
    if (problem := lacking(error)) is not None:
        log_event("lacking", problem=problem, error=type(error).__name__)
        status = 507 if problem == FULL else 503
        return error_response(status, problem, {"retry-after": "5"})
    match error:
        case HTTPException():
            return error_response(error.status_code, _http_message(error), error.headers)
        case RequestValidationError():
            return _first_mistake(request, error)
        case JprError():
            return error_response(422, str(error))
        case RecursionError():
            return error_response(422, "a document is nested too deeply; send it flat")
    return error_response(500, "internal error; see the log of the service")


async def handle_lack(request: Request, error: Exception) -> Response:
    """Return the response to an error of the machine, if it lacked something."""
    if lacking(error) is None:
        raise error
    return await handle_error(request, error)


def _http_message(error: HTTPException) -> str:
    if error.status_code == 400 and error.__cause__ is not None:  # raised by the framework
        return "the body cannot be parsed; send UTF-8, with finite numbers and less nesting"
    is_bare = error.detail == HTTPStatus(error.status_code).phrase
    return _HINTS.get(error.status_code, error.detail) if is_bare else error.detail


def _first_mistake(request: Request, error: RequestValidationError) -> Response:
    """Report the first mistake in a body, and where it is."""
    first = error.errors()[0]
    kind, where = first["type"], ".".join(str(part) for part in first["loc"][1:])[:_MAX_NAME]
    if kind == "json_invalid":
        return error_response(400, f"the body is not valid JSON: {first['ctx']['error']}")
    if where:
        return error_response(422, f"{where}: {_REASONS.get(kind, first['msg'])}")
    if request.url.path.endswith("/v1/corpora"):
        return error_response(422, "send files, with Content-Type: multipart/form-data")
    return error_response(422, "send a JSON object, with Content-Type: application/json")
