"""A pipeline with the threads that work for it."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from starlette.exceptions import HTTPException

from jpr.pipeline import Pipeline
from jpr.serve.batching import BatchThread
from jpr.serve.engine import ServiceEngine
from jpr.serve.limits import ServiceLimits
from jpr.serve.metrics import Metrics
from jpr.serve.uploads import UploadedCorpora


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
        self.limits, self.corpora, self.source = limits, corpora, source
        self.metrics = Metrics()
        engine = ServiceEngine(pipeline, self.metrics.count)
        self.name, self._pipeline = f"jpr-joint-{engine.weights[:8]}", engine.pipeline
        self.model = BatchThread(engine.work, limits.batch)
        self.first_stage = BatchThread(engine.search, limits.batch)
        self.uploads = ThreadPoolExecutor(1)

    def close(self) -> None:
        """Finish the queued jobs, and remove uploaded corpora."""
        self.model.close()
        self.first_stage.close()
        self.uploads.shutdown()
        self.corpora.close()

    def pipeline(self, corpus: str | None = None) -> Pipeline:
        """Return the pipeline over an uploaded corpus, by default over the service's own."""
        if corpus is None:
            return self._pipeline
        if (found := self.corpora.get(corpus)) is None:
            raise HTTPException(404, "unknown or expired corpus; upload its files again")
        return replace(self._pipeline, retriever=found.retriever)
