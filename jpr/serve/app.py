"""The ASGI app: routes, error responses, the web page, and the middleware around them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Scope

import jpr
from jpr.errors import JprError
from jpr.serve.auth import AccessPolicy
from jpr.serve.middleware import RequestMiddleware
from jpr.serve.routes import router
from jpr.serve.schemas import Json, error_body
from jpr.serve.service import Service

WEB = Path(__file__).parent / "web"
_MAX_NAME = 100
"""Characters of a field's name that an error repeats."""
_PAGE_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}
_HINTS = {404: "no such path; see /openapi.json", 405: "method not allowed; use POST or GET"}


def make_app(service: Service, policy: AccessPolicy) -> ASGIApp:
    """Return the ASGI app of a service, which closes it at shutdown."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(service.close)

    app = FastAPI(
        title="jpr",
        version=jpr.__version__,
        summary="The k passages that together cover every distinct answer.",
        docs_url=None,  # it would load scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
        exception_handlers={
            JprError: _user_error,
            HTTPException: _http_error,
            RequestValidationError: _invalid,
            Exception: _internal_error,
        },
    )
    app.state.service = service
    app.include_router(router)
    app.mount("/", _Page(directory=WEB, html=True))
    return RequestMiddleware(app, service, policy)


class _Page(StaticFiles):
    """The files of the page, which load nothing from elsewhere."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        routes = [route for route in router.routes if isinstance(route, APIRoute)]
        allowed = {
            method for one in routes if one.path == f"/{path}" for method in one.methods or ()
        }
        if allowed:  # the mounted page is also asked about other methods of our paths
            raise HTTPException(405, headers={"allow": ", ".join(sorted(allowed))})
        if self.lookup_path(path)[1] is None:
            raise HTTPException(404)
        response = await super().get_response(path, scope)
        response.headers.update(_PAGE_HEADERS)
        return response


async def _http_error(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    status, message = error.status_code, error.detail
    if message == HTTPStatus(status).phrase:
        message = _HINTS.get(status, message)
    if status == 400 and error.__cause__ is not None:  # raised by the framework
        message = "the body cannot be parsed; send UTF-8, with finite numbers and less nesting"
    return Json(error_body(message), status, error.headers)


async def _user_error(_: Request, error: Exception) -> JSONResponse:
    return Json(error_body(str(error)), 422)


async def _invalid(request: Request, error: Exception) -> JSONResponse:
    """Report the first mistake in a body, and where it is."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    kind, where = first["type"], ".".join(str(part) for part in first["loc"][1:])[:_MAX_NAME]
    if kind == "json_invalid":
        return Json(error_body(f"the body is not valid JSON: {first['ctx']['error']}"), 400)
    if not where:
        is_upload = request.url.path.endswith("/v1/corpora")
        needed = "files" if is_upload else "a JSON object"
        media = "multipart/form-data" if is_upload else "application/json"
        return Json(error_body(f"send {needed}, with Content-Type: {media}"), 422)
    reasons = {
        "missing": "is missing",
        "extra_forbidden": "is not a known field",
        "too_short": "give at least one",
    }
    return Json(error_body(f"{where}: {reasons.get(kind, first['msg'])}"), 422)


async def _internal_error(_: Request, __: Exception) -> JSONResponse:
    return Json(error_body("internal error; see the log of the service"), 500)
