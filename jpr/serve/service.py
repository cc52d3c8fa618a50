"""A pipeline with the threads that work for it, its limits, and counts of what it has done."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.exceptions import HTTPException
from tokenizers import Tokenizer

from jpr.pipeline import Pipeline
from jpr.serve.batching import BatchThread, IsLeft
from jpr.serve.engine import ServiceEngine
from jpr.serve.limits import ServiceLimits
from jpr.serve.uploads import UploadedCorpora
from jpr.stages import Encoder

T = TypeVar("T")
_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_COUNTERS = {
    "jobs": "Jobs that the model has processed.",
    "batches": "Batches in which it processed them.",
    "tokens": "Tokens that it has read.",
    "reused": "Questions whose candidates it had encoded before.",
    "abandoned": "Jobs dropped because their client left or their time was over.",
}


class Service:
    """A pipeline with threads for the model, for the first stage and for uploads."""

    def __init__(
        self,
        pipeline: Pipeline,
        limits: ServiceLimits,
        tokenizer: Tokenizer,
        encoder: Callable[[], Encoder] | None = None,
        source: str = "index",
    ) -> None:
        """Start the threads; `source` is what /healthz names: encyclopedia, documents or index.

        Uploaded files are split by the tokenizer; without an encoder, they are retrieved lexically.
        """
        self.limits, self.source = limits, source
        self.corpora = UploadedCorpora(tokenizer, encoder, limits.corpora, limits.corpus_passages)
        self.metrics = Metrics()
        engine = ServiceEngine(pipeline, self.metrics.count)
        self.name, self._pipeline = f"jpr-joint-{engine.weights[:8]}", engine.pipeline
        count_dropped = partial(self.metrics.count, "abandoned")
        self.model = BatchThread(engine.work, min(limits.batch, engine.batch), count_dropped)
        self.first_stage = BatchThread(engine.search, limits.batch, count_dropped)
        self.uploads = BatchThread(self.corpora.work, 1, count_dropped)
        self._bodies = BatchThread(_called, 1)
        threads = self.model, self.first_stage, self.uploads, self._bodies
        self._open: list[BatchThread[Any, Any]] = [*threads]
        self.metrics.watch(*self._open)

    def close(self) -> None:
        """Finish the queued jobs, unless they are stuck, and remove uploaded corpora."""
        while self._open:  # a second call has nothing to wait for
            self._open.pop().close()
        self.corpora.close()

    async def in_thread(self, function: Callable[[], T], client: str) -> T:
        """Read or write a client's body outside of the event loop, one body at a time."""
        result: T = await self._bodies.run(function, client)
        return result

    @property
    def is_ready(self) -> bool:
        """Whether the threads of the model and of the first stage proceed."""
        return all(t.stuck_seconds <= self.limits.seconds for t in (self.model, self.first_stage))

    def pipeline(self, corpus: str | None = None) -> Pipeline:
        """Return the pipeline over an uploaded corpus, by default over the service's own."""
        if corpus is None:
            return self._pipeline
        if (found := self.corpora.get(corpus)) is None:
            raise HTTPException(404, "unknown or expired corpus; upload its files again")
        return replace(self._pipeline, retriever=found.retriever)


def _called(functions: Sequence[Callable[[], Any]], _: IsLeft) -> Iterator[tuple[int, Any]]:
    """Yield what each function returns."""
    return ((place, function()) for place, function in enumerate(functions))


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
        self._queue = Gauge("jpr_queue_seconds", "Age of the oldest queued job.", registry=registry)
        self._stuck = Gauge("jpr_stuck_seconds", "Time without progress.", registry=registry)
        self._counters = {
            name: Counter(f"jpr_{name}", text, registry=registry)
            for name, text in _COUNTERS.items()
        }

    def watch(self, *threads: BatchThread[Any, Any]) -> None:
        """Report how long the jobs of some threads wait, and how long the threads are stuck."""
        self._queue.set_function(lambda: max(thread.queue_seconds for thread in threads))
        self._stuck.set_function(lambda: max(thread.stuck_seconds for thread in threads))

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
