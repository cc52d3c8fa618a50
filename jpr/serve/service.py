"""A pipeline with the threads that work for it, its limits, and counts of what it has done."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import ParamSpec, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.exceptions import HTTPException
from tokenizers import Tokenizer

from jpr.errors import ConfigError
from jpr.pipeline import Pipeline
from jpr.serve.batching import BatchThread
from jpr.serve.engine import ServiceEngine
from jpr.serve.uploads import UploadedCorpora
from jpr.stages import Encoder

P = ParamSpec("P")
T = TypeVar("T")
_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_COUNTERS = {
    "jobs": "Jobs that the model has processed.",
    "batches": "Batches in which it processed them.",
    "tokens": "Tokens that it has read.",
    "reused": "Questions whose candidates it had encoded before.",
}


@dataclass(frozen=True, slots=True)
class ServiceLimits:
    """Bounds of a service. The model truncates passages itself, so tokens need no limit."""

    body: int = 16 << 20
    """Bytes of a request body; more are not read."""
    passages: int = 1000
    """Passages in a request or in its response."""
    characters: int = 2_000_000
    """Characters of all texts of a request together."""
    waiting: int = 32
    """Requests running or queued; further ones are rejected with 429 and Retry-After."""
    seconds: float = 60.0
    """Time for a request, from its first byte to its response."""
    batch: int = 8
    """Requests that the model processes together."""
    values: int = 50_000
    """Values in the JSON of a request."""
    connections: int = 100
    """Open connections of a client's address."""
    idle: float = 10.0
    """Time for the headers of a request, on a connection that is new or has had a response."""
    corpora: int = 8
    """Uploaded corpora kept; a new one replaces the least recently used."""
    corpus_passages: int = 2000
    """Passages of an uploaded corpus."""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not value > 0:
                raise ConfigError(f"limit {name} = {value}; it must be above 0")


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
        self.model = BatchThread(engine.work, limits.batch)
        self.first_stage = BatchThread(engine.search, limits.batch)
        self.uploads = ThreadPoolExecutor(1)
        self._bodies = ThreadPoolExecutor(1, "jpr-bodies")

    def close(self) -> None:
        """Finish the queued jobs, and remove uploaded corpora."""
        self.model.close()
        self.first_stage.close()
        self.uploads.shutdown()
        self._bodies.shutdown()
        self.corpora.close()

    async def in_thread(self, function: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
        """Read or write a body outside of the event loop, one body at a time."""
        call = partial(function, *given, **named)
        return await asyncio.get_running_loop().run_in_executor(self._bodies, call)

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
