"""The ASGI app: the paths of the service, the web page, and the middleware around them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Depends, FastAPI, Request, UploadFile
from fastapi.responses import JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from starlette.routing import Route
from starlette.types import ASGIApp, Scope

import jpr
from jpr.retrieve.retrievers import hits_json
from jpr.serve.engine import RerankResult
from jpr.serve.middleware import AccessPolicy, RequestMiddleware
from jpr.serve.responses import HANDLED, StrictJson, handle_error
from jpr.serve.schemas import AskRequest, RerankRequest, RerankResponse, SearchRequest
from jpr.serve.service import Service

WEB = Path(__file__).parent / "web"
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
router = APIRouter()


def make_app(service: Service, policy: AccessPolicy) -> ASGIApp:
    """Return the ASGI app of a service, which closes it at shutdown."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(service.close)

    page = _Page(directory=WEB, html=True)
    files = ["", *(file.name for file in WEB.iterdir())]
    app = FastAPI(
        title="jpr",
        version=jpr.__version__,
        summary="The k passages that together cover every distinct answer.",
        docs_url=None,  # it would load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
        exception_handlers=dict.fromkeys(HANDLED, handle_error),
        routes=[Route(f"/{name}", page, methods=["GET"]) for name in files],
    )
    app.state.service = service
    app.include_router(router)
    return RequestMiddleware(app, service, policy)


class _Page(StaticFiles):
    """The files of the page, which load nothing from elsewhere."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers.update(_PAGE_HEADERS)
        return response


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


ServiceOf = Annotated[Service, Depends(_service)]


@router.get("/healthz")
async def healthz(service: ServiceOf) -> dict[str, str | int]:
    """Return the version, the model and the kind of corpus of a running service."""
    return {
        "status": "ok",
        "version": jpr.__version__,
        "model": service.name,
        "corpus": service.source,
        "k": service.pipeline().k,
    }


@router.get("/metrics", response_class=Response)
async def metrics(service: ServiceOf) -> Response:
    """Return metrics for Prometheus."""
    return Response(service.metrics.text(), media_type=CONTENT_TYPE_PLAIN_0_0_4)


@router.post("/v1/rerank", response_model=RerankResponse)
@router.post("/v2/rerank", response_model=RerankResponse)
async def rerank(body: RerankRequest, service: ServiceOf, request: Request) -> JSONResponse:
    """Choose from documents, in the format of Jina and Cohere's version 1 or of Cohere's 2."""
    version = 1 if request.scope["route"].path == "/v1/rerank" else 2
    request.state.log_fields["passages"] = len(body.documents)
    found = await service.model.run(body.job(service))
    assert isinstance(found, RerankResult)
    return StrictJson(body.response(found, version, service.name))


@router.post("/v1/ask")
async def ask(body: AskRequest, service: ServiceOf) -> JSONResponse:
    """Answer a question."""
    return StrictJson(await service.model.run(body.job(service)))


@router.post("/v1/search")
async def search(body: SearchRequest, service: ServiceOf) -> JSONResponse:
    """Return passages of the first stage."""
    return StrictJson({"hits": hits_json(await service.first_stage.run(body.job(service)))})


@router.post("/v1/corpora", status_code=201)
async def corpora(files: list[UploadFile], service: ServiceOf, request: Request) -> JSONResponse:
    """Make a corpus of uploaded files."""
    request.state.log_fields["files"] = len(files)
    given = [(file.filename or "", await file.read()) for file in files]
    add, loop = service.corpora.add, asyncio.get_running_loop()
    corpus = await loop.run_in_executor(service.uploads, add, given)
    return StrictJson({"corpus": corpus.id, "passages": corpus.passages}, 201)
