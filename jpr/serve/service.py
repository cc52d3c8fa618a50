"""A pipeline with the threads that work for it."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from fastapi import UploadFile
from starlette.exceptions import HTTPException

from jpr.pipeline import Pipeline
from jpr.retrieve.retrievers import hits_json
from jpr.serve.batching import BatchThread
from jpr.serve.engine import AskJob, RerankJob, RerankResult, SearchJob, ServiceEngine
from jpr.serve.limits import ServiceLimits
from jpr.serve.metrics import Metrics
from jpr.serve.schemas import AskRequest, RerankRequest, SearchRequest, check_characters
from jpr.serve.uploads import UploadedCorpora, UploadedCorpus, UploadedFile
from jpr.types import Ranking


class Service:
    """A pipeline with threads for the model, for the first stage and for uploads."""

    def __init__(
        self,
        pipeline: Pipeline,
        limits: ServiceLimits,
        corpora: UploadedCorpora,
        source: str = "index",
    ) -> None:
        """Start the threads; `source` is what /healthz names: encyclopedia, documents or index."""
        self.source, self.k = source, pipeline.k
        self.limits, self.corpora, self.metrics = limits, corpora, Metrics()
        engine = ServiceEngine(pipeline, self.metrics.count)
        self.model, self._pipeline = f"jpr-joint-{engine.weights[:8]}", engine.pipeline
        batch = limits.batch
        self._model: BatchThread[AskJob | RerankJob, dict[str, object] | RerankResult]
        self._model = BatchThread(engine.work, batch)
        self._first_stage: BatchThread[SearchJob, Ranking] = BatchThread(engine.search, batch)
        self.uploads: BatchThread[Sequence[UploadedFile], UploadedCorpus]
        self.uploads = BatchThread(corpora.work, 1)

    def close(self) -> None:
        """Finish the queued jobs, and remove uploaded corpora."""
        for thread in (self._model, self._first_stage, self.uploads):
            thread.close()
        self.corpora.close()

    def seconds_per_job(self) -> float:
        """Return how long a job of the model takes at present."""
        return self._model.seconds_per_job

    async def rerank(self, body: RerankRequest, version: int) -> dict[str, object]:
        """Choose from documents."""
        found = await asyncio.wrap_future(self._model.submit(body.job(self.limits)))
        assert isinstance(found, RerankResult)
        return body.response(found, version, self.model)

    async def ask(self, body: AskRequest) -> dict[str, object]:
        """Answer a question."""
        check_characters([body.question], self.limits)
        pipeline = self._over(body.corpus)
        _check_k(body.k, pipeline.candidates)
        job = AskJob(pipeline, body.corpus or "", body.question, body.options(), body.compare)
        reply = await asyncio.wrap_future(self._model.submit(job))
        assert isinstance(reply, dict)
        return reply

    async def search(self, body: SearchRequest) -> dict[str, object]:
        """Return passages of the first stage."""
        check_characters([body.query], self.limits)
        _check_k(body.k, self.limits.passages)
        job = SearchJob(self._over(body.corpus), body.query, body.k)
        return {"hits": hits_json(await asyncio.wrap_future(self._first_stage.submit(job)))}

    async def add_corpus(self, files: Sequence[UploadFile]) -> dict[str, object]:
        """Make a corpus of files."""
        given = [UploadedFile(file.filename or "", await file.read()) for file in files]
        corpus = await asyncio.wrap_future(self.uploads.submit(given))
        return {"corpus": corpus.id, "passages": corpus.passages}

    def _over(self, corpus: str | None) -> Pipeline:
        """Return the pipeline over an uploaded corpus, or over the service's own."""
        if corpus is None:
            return self._pipeline
        if (found := self.corpora.get(corpus)) is None:
            raise HTTPException(404, "unknown or expired corpus; upload its files again")
        return replace(self._pipeline, retriever=found.retriever)


def _check_k(k: int | None, limit: int) -> None:
    if k is not None and k > limit:
        raise HTTPException(422, f"k: at most {limit} passages")
