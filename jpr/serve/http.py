"""The service over HTTP: routes, errors, the page, and the gate before them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Scope

import jpr
from jpr.errors import JprError
from jpr.serve.gate import Door, Gate, Refusal, sentence
from jpr.serve.routes import router
from jpr.serve.service import Service
from jpr.serve.shapes import Json

WEB = Path(__file__).parent / "web"
"""The page."""
_SHOWN = 100
"""Characters of a field's name that are told back."""
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


def make_app(service: Service, door: Door) -> ASGIApp:
    """Return the ASGI app of a service, which closes it at the end."""

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
    )
    app.state.service = service
    app.include_router(router)
    for kind, answer in _ERRORS.items():
        app.add_exception_handler(kind, answer)
    if WEB.is_dir():
        app.mount("/", _Page(directory=WEB, html=True))
    gate = Gate(app, service.limits, door, service.metrics, lambda: service.work.seconds_per_job)
    service.metrics.waiting = lambda: gate.waiting
    return gate


class _Page(StaticFiles):
    """The files of the page, which load nothing from elsewhere."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Return a file."""
        response = await super().get_response(path, scope)
        response.headers.update(_PAGE_HEADERS)
        return response


async def _refused(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Refusal)
    return Json(sentence(error.message), error.status, dict(error.headers))


async def _mistaken(_: Request, error: Exception) -> JSONResponse:
    return Json(sentence(str(error)), 422)


async def _unknown(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    told = {404: "there is no such path; see /openapi.json", 405: "use the method POST, or GET"}
    said = told.get(error.status_code, error.detail)
    if error.status_code == 400 and error.__cause__ is not None:  # of the framework's own words
        said = "the body cannot be read; send UTF-8, with numbers and nesting that have an end"
    return Json(sentence(said), error.status_code)


async def _invalid(request: Request, error: Exception) -> JSONResponse:
    """Say the first thing that is wrong with a body, and where."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    kind, where = first["type"], ".".join(str(part) for part in first["loc"][1:])[:_SHOWN]
    if kind == "json_invalid":
        return Json(sentence(f"the body is no JSON: {first['ctx']['error']}"), 400)
    if not where:
        own = "files", "multipart/form-data"
        if not request.url.path.endswith("/v1/corpora"):
            own = "a JSON object", "application/json"
        return Json(sentence(f"send {own[0]}, with Content-Type: {own[1]}"), 422)
    told = {"missing": "is missing", "extra_forbidden": "there is no such field"}
    return Json(sentence(f"{where}: {told.get(kind, first['msg'])}"), 422)


async def _failed(_: Request, __: Exception) -> JSONResponse:
    return Json(sentence("an error of the service; its log tells where"), 500)


_ERRORS = {
    Refusal: _refused,
    JprError: _mistaken,
    HTTPException: _unknown,
    RequestValidationError: _invalid,
    Exception: _failed,
}
