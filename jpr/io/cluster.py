"""Work over the processes of a Dask cluster: the same results, in the same order.

Each worker opens what it works with once, from a path that must hold the same everywhere. A bounded
number of pieces is under way, so that memory does not grow with the work. A worker that is lost
takes its piece with it; another worker, or the one that takes its place, does it again.
"""

import warnings
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import islice
from threading import Lock
from types import ModuleType
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from jpr.errors import ConfigError, DataError, JprError, MissingExtraError

if TYPE_CHECKING:
    from distributed import Client, Future

S = TypeVar("S")
T = TypeVar("T")
U = TypeVar("U")

_AHEAD = 3
"""Pieces under way for each thread of a worker: one at work, the others on their way or back."""
_RETRIES = 2
"""How often a piece that failed, on a worker that lives, is tried again."""
_OPENING = Lock()
"""The threads of a worker share what one of them opens."""


@dataclass(frozen=True, slots=True)
class Opening(Generic[S]):
    """How a worker opens what it works with."""

    open: Callable[..., tuple[S, str]]
    """Returns it and its key; a function that has a name in a module."""
    arguments: tuple[Hashable, ...]
    key: str
    """That of what is open here: the same key, the same results."""
    name: str
    """As a user knows it."""


class Spread(Protocol):
    """Does the work of a stage on many things: here, or in batches on workers."""

    def __call__(
        self,
        work: Callable[[S, Iterable[T]], Iterable[U]],
        stage: S,
        items: Iterable[T],
        batch: int,
    ) -> Iterable[U]:
        """Return `work(stage, items)`, whose results are as many, and in the same order."""


def here(
    work: Callable[[S, Iterable[T]], Iterable[U]], stage: S, items: Iterable[T], batch: int
) -> Iterable[U]:
    """Do the work in this process."""
    return work(stage, items)


def over_workers(client: "Client", opening: Opening[Any]) -> Spread:
    """Return what does the work on a cluster, with the same stage, opened there."""

    def spread(
        work: Callable[[S, Iterable[T]], Iterable[U]], stage: S, items: Iterable[T], batch: int
    ) -> Iterator[U]:
        rest = iter(items)
        batches = iter(lambda: list(islice(rest, batch)), [])
        for found in mapped(client, opening, partial(_listed, work), batches):
            yield from found

    return spread


def mapped(
    client: "Client", opening: Opening[S], work: Callable[[S, T], U], items: Iterable[T]
) -> Iterator[U]:
    """Yield the result of each item, in their order."""
    rest = iter(items)
    under_way: deque[Future[U]] = deque()
    while True:
        for item in islice(rest, max(0, _room(client) - len(under_way))):
            under_way.append(_sent(client, opening, work, item))
        if not under_way:
            return
        yield _result(under_way.popleft())


@contextmanager
def local_cluster(workers: int) -> Iterator["Client"]:
    """Start so many processes on this machine, each with one thread."""
    if workers < 1:
        raise ConfigError(f"--workers {workers}: start at least one")
    distributed = _distributed()
    with (
        distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            memory_limit=0,  # an index that is mapped would count as memory, and end its worker
            dashboard_address=None,
            silence_logs=50,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@contextmanager
def remote_cluster(address: str) -> Iterator["Client"]:
    """Connect to a scheduler that runs already, such as tcp://node1:8786."""
    distributed = _distributed()
    try:
        client = distributed.Client(address, timeout=10)
    except (OSError, ValueError) as error:
        raise ConfigError(f"--scheduler {address}: no scheduler answers there ({error})") from error
    with client:
        yield client


def _room(client: "Client") -> int:
    threads: dict[str, int] = client.nthreads()  # type: ignore[no-untyped-call]  # not typed there
    return _AHEAD * max(1, sum(threads.values()))


def _sent(client: "Client", opening: Opening[S], work: Callable[[S, T], U], item: T) -> "Future[U]":
    with warnings.catch_warnings():
        # Items travel with their task, so that they are there to be done again.
        warnings.filterwarnings("ignore", "Sending large graph")
        return client.submit(_done, opening, work, item, pure=False, retries=_RETRIES)


def _result(future: "Future[U]") -> U:
    distributed = _distributed()
    try:
        return future.result()
    except distributed.KilledWorker as error:
        raise DataError(
            "a piece was given up: every worker that took it was lost; is memory short there?"
        ) from error
    except CancelledError as error:
        raise DataError("the scheduler was lost; give the same command again to go on") from error


def _done(opening: Opening[S], work: Callable[[S, T], U], item: T) -> U:
    """Do one piece; this runs on a worker."""
    try:
        with _OPENING:
            stage = _opened(opening)
        return work(stage, item)
    except JprError as error:  # as one that can travel, whatever it was made of
        raise JprError(f"a worker says: {error}") from None


@lru_cache(maxsize=2)
def _opened(opening: Opening[S]) -> S:
    stage, key = opening.open(*opening.arguments)
    if key != opening.key:
        raise JprError(f"{opening.name}: is another on a worker than here; copy it there")
    return stage


def _listed(work: Callable[[S, Iterable[T]], Iterable[U]], stage: S, items: list[T]) -> list[U]:
    return list(work(stage, items))


def _distributed() -> ModuleType:
    try:
        import distributed
    except ImportError as error:
        raise MissingExtraError("work over Dask workers", "dask") from error
    return distributed
