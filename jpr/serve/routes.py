"""The paths of the service."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request, UploadFile
from fastapi.responses import JSONResponse, PlainTextResponse

import jpr
from jpr.serve.service import Service
from jpr.serve.shapes import AskBody, Json, RerankAnswer, RerankBody, SearchBody

router = APIRouter()


def _of(request: Request) -> Service:
    found: Service = request.app.state.service
    return found


Serving = Annotated[Service, Depends(_of)]


@router.get("/healthz")
async def healthz(service: Serving) -> dict[str, str | int]:
    """Tell that the service is there, its model, and what kind of corpus it asks."""
    told = {"version": jpr.__version__, "model": service.model, "corpus": service.source}
    return {"status": "ok", **told, "k": service.k}


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(service: Serving) -> PlainTextResponse:
    """Tell what the service has done, for Prometheus."""
    return PlainTextResponse(service.metrics.text(), media_type="text/plain; version=0.0.4")


@router.post("/v1/rerank", response_model=RerankAnswer)
async def rerank_v1(body: RerankBody, service: Serving, request: Request) -> JSONResponse:
    """Choose from documents, in the shape of Jina and of Cohere's first version."""
    request.state.told["passages"] = len(body.documents)
    return Json(await service.rerank(body, 1))


@router.post("/v2/rerank", response_model=RerankAnswer)
async def rerank_v2(body: RerankBody, service: Serving, request: Request) -> JSONResponse:
    """Choose from documents, in the shape of Cohere's second version."""
    request.state.told["passages"] = len(body.documents)
    return Json(await service.rerank(body, 2))


@router.post("/v1/ask")
async def ask(body: AskBody, service: Serving) -> JSONResponse:
    """Answer a question."""
    return Json(await service.ask(body))


@router.post("/v1/search")
async def search(body: SearchBody, service: Serving) -> JSONResponse:
    """Find passages, one by one."""
    return Json(await service.find(body))


@router.post("/v1/corpora", status_code=201)
async def corpora(files: list[UploadFile], service: Serving, request: Request) -> JSONResponse:
    """Make a corpus of files."""
    request.state.told["files"] = len(files)
    return Json(await service.make_corpus(files), 201)
