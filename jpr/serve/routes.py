"""The paths of the service."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Depends, Request, UploadFile
from fastapi.responses import JSONResponse, Response
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from starlette.exceptions import HTTPException

import jpr
from jpr.retrieve.retrievers import hits_json
from jpr.serve.engine import AskJob, DecodeOptions, RerankResult, SearchJob
from jpr.serve.schemas import (
    AskRequest,
    Json,
    RerankRequest,
    RerankResponse,
    SearchRequest,
    check_characters,
)
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
    found = await asyncio.wrap_future(service.model.submit(body.job(service.limits)))
    assert isinstance(found, RerankResult)
    return Json(body.response(found, version, service.name))


@router.post("/v1/ask")
async def ask(body: AskRequest, service: ServiceOf) -> JSONResponse:
    """Answer a question."""
    check_characters([body.question], service.limits)
    pipeline = service.pipeline(body.corpus)
    _check_k(body.k, pipeline.candidates)
    options = DecodeOptions(body.k, body.decode, body.beta)
    job = AskJob(pipeline, body.corpus or "", body.question, options, body.compare)
    return Json(await asyncio.wrap_future(service.model.submit(job)))


@router.post("/v1/search")
async def search(body: SearchRequest, service: ServiceOf) -> JSONResponse:
    """Return passages of the first stage."""
    check_characters([body.query], service.limits)
    _check_k(body.k, service.limits.passages)
    job = SearchJob(service.pipeline(body.corpus), body.query, body.k)
    return Json({"hits": hits_json(await asyncio.wrap_future(service.first_stage.submit(job)))})


@router.post("/v1/corpora", status_code=201)
async def corpora(files: list[UploadFile], service: ServiceOf, request: Request) -> JSONResponse:
    """Make a corpus of uploaded files."""
    request.state.log_fields["files"] = len(files)
    given = [(file.filename or "", await file.read()) for file in files]
    corpus = await asyncio.wrap_future(service.uploads.submit(service.corpora.add, given))
    return Json({"corpus": corpus.id, "passages": corpus.passages}, 201)


def _check_k(k: int | None, limit: int) -> None:
    if k is not None and k > limit:
        raise HTTPException(422, f"k: must be at most {limit}")
