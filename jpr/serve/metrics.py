"""Counters and durations for Prometheus."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_COUNTERS = {
    "jobs": "Jobs that the model has processed.",
    "batches": "Batches in which it processed them.",
    "tokens": "Tokens that it has read.",
    "reused": "Questions whose candidates it had encoded before.",
}


class Metrics:
    """What a service has done; threads may share it."""

    def __init__(self) -> None:
        """Start at zero."""
        registry = CollectorRegistry()
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
        names = [f"jpr_{name}_total" for name in ("requests", *_COUNTERS)]
        names += [f"jpr_request_seconds_{part}" for part in ("bucket", "sum", "count")]
        # Without the times of creation, which Prometheus takes for metrics of their own.
        self._exported = registry.restricted_registry(["jpr_waiting", *names])

    def count(self, name: str, value: int = 1) -> None:
        """Add to the counter `jpr_{name}_total`."""
        self._counters[name].inc(value)

    def text(self) -> bytes:
        """Return the metrics in the text format of Prometheus.

        >>> metrics = Metrics()
        >>> metrics.count("tokens", 3)
        >>> "jpr_tokens_total 3.0" in metrics.text().decode().splitlines()
        True
        """
        text: bytes = generate_latest(self._exported)
        return text
