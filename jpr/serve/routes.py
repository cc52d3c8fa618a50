"""The paths of the service."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request, UploadFile
from fastapi.responses import JSONResponse, Response
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

import jpr
from jpr.serve.schemas import AskRequest, Json, RerankRequest, RerankResponse, SearchRequest
from jpr.serve.service import Service

router = APIRouter()


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
        "model": service.model,
        "corpus": service.source,
        "k": service.k,
    }


@router.get("/metrics", response_class=Response)
async def metrics(service: ServiceOf) -> Response:
    """Return metrics for Prometheus."""
    return Response(service.metrics.text(), media_type=CONTENT_TYPE_PLAIN_0_0_4)


@router.post("/v1/rerank", response_model=RerankResponse)
async def rerank_v1(body: RerankRequest, service: ServiceOf, request: Request) -> JSONResponse:
    """Choose from documents, in the format of Jina and of Cohere's version 1."""
    request.state.log_fields["passages"] = len(body.documents)
    return Json(await service.rerank(body, 1))


@router.post("/v2/rerank", response_model=RerankResponse)
async def rerank_v2(body: RerankRequest, service: ServiceOf, request: Request) -> JSONResponse:
    """Choose from documents, in the format of Cohere's version 2."""
    request.state.log_fields["passages"] = len(body.documents)
    return Json(await service.rerank(body, 2))


@router.post("/v1/ask")
async def ask(body: AskRequest, service: ServiceOf) -> JSONResponse:
    """Answer a question."""
    return Json(await service.ask(body))


@router.post("/v1/search")
async def search(body: SearchRequest, service: ServiceOf) -> JSONResponse:
    """Return passages of the first stage."""
    return Json(await service.search(body))


@router.post("/v1/corpora", status_code=201)
async def corpora(files: list[UploadFile], service: ServiceOf, request: Request) -> JSONResponse:
    """Make a corpus of uploaded files."""
    request.state.log_fields["files"] = len(files)
    return Json(await service.add_corpus(files), 201)
