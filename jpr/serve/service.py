"""A pipeline with the threads that work for it."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from fastapi import UploadFile

from jpr.pipeline import Pipeline
from jpr.retrieve.retrievers import hits_json
from jpr.serve.batching import WorkThread
from jpr.serve.corpora import Corpora, Corpus, File
from jpr.serve.engine import Engine
from jpr.serve.gate import Refusal
from jpr.serve.jobs import Ask, Rerank, Reranked, Search, Told
from jpr.serve.limits import Limits
from jpr.serve.metrics import Metrics
from jpr.serve.shapes import (
    AskBody,
    RerankBody,
    SearchBody,
    check_characters,
    rerank_answer,
)
from jpr.types import Ranking


class Service:
    """A pipeline with its threads: one for the model, one for the first stage, one for corpora."""

    def __init__(
        self, pipeline: Pipeline, limits: Limits, corpora: Corpora, source: str = "index"
    ) -> None:
        """Start the threads; `source` tells what is asked: encyclopedia, documents or index."""
        self.source, self.k = source, pipeline.k
        self.metrics = Metrics()
        self.limits, self.corpora = limits, corpora
        self._engine = Engine(pipeline, self.metrics)
        self.model = f"jpr-joint-{self._engine.weights[:8]}"
        most = limits.batch
        self.work: WorkThread[Ask | Rerank, Told | Reranked] = WorkThread(self._engine.work, most)
        self.search: WorkThread[Search, Ranking] = WorkThread(self._engine.search, most)
        self.making: WorkThread[Sequence[File], Corpus] = WorkThread(corpora.work, 1)

    def close(self) -> None:
        """Finish what waits, and remove corpora."""
        for thread in (self.work, self.search, self.making):
            thread.close()
        self.corpora.close()

    def pipeline(self, corpus: str | None) -> Pipeline:
        """Return what asks a corpus; without one, the service's own."""
        own = self._engine.pipeline
        if corpus is None:
            return own
        if (found := self.corpora.get(corpus)) is None:
            raise Refusal(404, "the corpus is not here, or not any more; send its files again")
        return replace(own, retriever=found.retriever)

    async def rerank(self, body: RerankBody, version: int) -> dict[str, object]:
        """Choose from documents."""
        found = await asyncio.wrap_future(self.work.submit(body.job(self.limits)))
        assert isinstance(found, Reranked)
        return rerank_answer(body, found, version, self.model)

    async def ask(self, body: AskBody) -> dict[str, object]:
        """Answer a question."""
        check_characters([body.question], self.limits)
        pipeline = self.pipeline(body.corpus)
        _check_k(body.k, pipeline.candidates)
        job = Ask(pipeline, body.corpus or "", body.question, body.how(), body.compare)
        found = await asyncio.wrap_future(self.work.submit(job))
        assert isinstance(found, dict)
        return found

    async def find(self, body: SearchBody) -> dict[str, object]:
        """Find passages."""
        check_characters([body.query], self.limits)
        _check_k(body.k, self.limits.passages)
        job = Search(self.pipeline(body.corpus), body.query, body.k)
        return {"hits": hits_json(await asyncio.wrap_future(self.search.submit(job)))}

    async def make_corpus(self, files: Sequence[UploadFile]) -> dict[str, object]:
        """Make a corpus of files."""
        given = [File(file.filename or "", await file.read()) for file in files]
        corpus = await asyncio.wrap_future(self.making.submit(given))
        return {"corpus": corpus.id, "passages": corpus.passages}


def _check_k(k: int | None, most: int) -> None:
    if k is not None and k > most:
        raise Refusal(422, f"k: ask for at most {most} passages")
