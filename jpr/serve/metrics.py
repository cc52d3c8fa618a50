"""Counts and durations in the text format of Prometheus."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from threading import Lock

_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_HELP = {
    "jpr_requests_total": "Requests answered, by route and status.",
    "jpr_request_seconds": "Seconds from a request's first byte to its answer.",
    "jpr_jobs_total": "Jobs that the model did.",
    "jpr_batches_total": "Batches in which it did them.",
    "jpr_tokens_total": "Tokens that it read.",
    "jpr_reused_total": "Questions whose candidates it had read already.",
    "jpr_waiting": "Requests at work or waiting for it.",
}
Labels = tuple[tuple[str, str], ...]


class Metrics:
    """What a service has done; threads may share it."""

    def __init__(self) -> None:
        """Begin at zero."""
        self._lock = Lock()
        self.waiting: Callable[[], int] = lambda: 0
        """Tells how many requests there are now."""
        self._counts: dict[tuple[str, Labels], int] = defaultdict(int)
        self._durations: dict[tuple[str, Labels], list[int]] = {}
        self._sums: dict[tuple[str, Labels], float] = defaultdict(float)

    def count(self, name: str, value: int = 1, **labels: str) -> None:
        """Add to a counter."""
        with self._lock:
            self._counts[name, tuple(labels.items())] += value

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        """Add a duration to a histogram."""
        key = name, tuple(labels.items())
        with self._lock:
            counts = self._durations.setdefault(key, [0] * (len(_BUCKETS) + 1))
            place = sum(seconds > edge for edge in _BUCKETS)
            counts[place] += 1
            self._sums[key] += seconds

    def text(self) -> str:
        """Return all of it.

        >>> metrics = Metrics()
        >>> metrics.count("jpr_requests_total", route="/healthz", status="200")
        >>> print(metrics.text().splitlines()[-1])
        jpr_requests_total{route="/healthz",status="200"} 1
        """
        with self._lock:
            return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        yield from _head("jpr_waiting", "gauge")
        yield f"jpr_waiting {self.waiting()}"
        for name in sorted({name for name, _ in self._counts}):
            yield from _head(name, "counter")
            for (own, labels), value in self._counts.items():
                if own == name:
                    yield f"{name}{_braces(labels)} {value}"
        for name in sorted({name for name, _ in self._durations}):
            yield from _head(name, "histogram")
            for (own, labels), counts in self._durations.items():
                if own == name:
                    yield from self._histogram(name, labels, counts)

    def _histogram(self, name: str, labels: Labels, counts: list[int]) -> Iterator[str]:
        below = 0
        for edge, count in zip((*_BUCKETS, "+Inf"), counts, strict=True):
            below += count
            yield f"{name}_bucket{_braces((*labels, ('le', str(edge))))} {below}"
        yield f"{name}_sum{_braces(labels)} {self._sums[name, labels]:.6f}"
        yield f"{name}_count{_braces(labels)} {below}"


def _head(name: str, kind: str) -> Iterator[str]:
    yield f"# HELP {name} {_HELP[name]}"
    yield f"# TYPE {name} {kind}"


def _braces(labels: Labels) -> str:
    """Write labels; their values are ours, routes and numbers, with nothing to escape."""
    inside = ",".join(f'{name}="{value}"' for name, value in labels)
    return f"{{{inside}}}" if inside else ""
