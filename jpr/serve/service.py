"""A pipeline with the threads that work for it, and counts of what they have done."""

from dataclasses import replace

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.exceptions import HTTPException

from jpr.pipeline import Pipeline
from jpr.serve.batching import BatchThread
from jpr.serve.engine import ServiceEngine
from jpr.serve.limits import ServiceLimits
from jpr.serve.uploads import UploadedCorpora

_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_COUNTERS = {
    "jobs": "Jobs that the model has processed.",
    "batches": "Batches in which it processed them.",
    "tokens": "Tokens that it has read.",
    "reused": "Questions whose candidates it had encoded before.",
}


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
        self.uploads = BatchThread(corpora.add_many, 1)

    def close(self) -> None:
        """Finish the queued jobs, and remove uploaded corpora."""
        for thread in (self.model, self.first_stage, self.uploads):
            thread.close()
        self.corpora.close()

    def pipeline(self, corpus: str | None = None) -> Pipeline:
        """Return the pipeline over an uploaded corpus, by default over the service's own."""
        if corpus is None:
            return self._pipeline
        if (found := self.corpora.get(corpus)) is None:
            raise HTTPException(404, "unknown or expired corpus; upload its files again")
        return replace(self._pipeline, retriever=found.retriever)


class Metrics:
    """What a service has done; threads may share it."""

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        labels = ["route", "status"]
        self.requests = Counter(
            "jpr_requests", "Requests answered, by route and status.", labels, registry=registry
        )
        self.seconds = Histogram(
            "jpr_request_seconds",
            "Seconds from a request's first byte to its response.",
            ["route"],
            buckets=_BUCKETS,
            registry=registry,
        )
        self.waiting = Gauge("jpr_waiting", "Requests running or queued.", registry=registry)
        self._counters = {
            name: Counter(f"jpr_{name}", text, registry=registry)
            for name, text in _COUNTERS.items()
        }

    def count(self, name: str, value: int = 1) -> None:
        """Add to the counter `jpr_{name}_total`."""
        self._counters[name].inc(value)

    def text(self) -> str:
        """Return the metrics in the text format of Prometheus.

        >>> metrics = Metrics()
        >>> metrics.count("tokens", 3)
        >>> "jpr_tokens_total 3.0" in metrics.text().splitlines()
        True
        """
        lines = generate_latest(self._registry).decode().splitlines(keepends=True)
        # Prometheus takes the times of creation for metrics of their own.
        return "".join(line for line in lines if "_created" not in line)
