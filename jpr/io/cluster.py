"""Work over the processes of a Dask cluster: the same results, in the same order.

Each worker opens its stage once, from a path that must hold the same files everywhere. A bounded
number of tasks is in flight, so that memory does not grow with the work. The task of a worker that
is lost is done again by another.
"""

import warnings
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain, islice
from threading import Lock
from types import ModuleType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from jpr.errors import ConfigError, DataError, JprError, MissingExtraError
from jpr.stages import batched

if TYPE_CHECKING:
    from distributed import Client, Future

S = TypeVar("S")
T = TypeVar("T")
U = TypeVar("U")

_IN_FLIGHT = 3  # tasks for each thread of a worker: one at work, the others on their way
_OPENING = Lock()  # the threads of a worker share the stage that one of them opens


@dataclass(frozen=True, slots=True)
class StageSpec(Generic[S]):
    """How a worker opens the stage that it runs."""

    open: Callable[..., tuple[S, str]]
    """Returns the stage and its key; a function of a module, so that it can be pickled."""
    arguments: tuple[Hashable, ...]
    key: str
    """The key of the client's stage: the same key, the same results."""
    name: str
    """For messages."""


Work = Callable[[Any, Iterable[Any]], Iterable[Any]]
"""Runs a stage on items: one result per item, in the same order."""
BatchRunner = Callable[[Work, Any, Iterable[Any], int], Iterable[Any]]
"""Does work with a stage on items: in this process, or in batches of this size on workers."""


def run_locally(work: Work, stage: object, items: Iterable[Any], batch: int) -> Iterable[Any]:
    """Run the stage in this process."""
    return work(stage, items)


def cluster_runner(client: "Client", spec: StageSpec[Any]) -> BatchRunner:
    """Return a runner that opens the same stage on the workers of a cluster."""

    def run(work: Work, stage: object, items: Iterable[Any], batch: int) -> Iterable[Any]:
        found = cluster_map(client, spec, partial(_as_list, work), batched(items, batch))
        return chain.from_iterable(found)

    return run


def cluster_map(
    client: "Client", spec: StageSpec[S], work: Callable[[S, T], U], items: Iterable[T]
) -> Iterator[U]:
    """Yield the result of each item, in their order."""
    rest = iter(items)
    in_flight: deque[Future[U]] = deque()
    while True:
        threads: dict[str, int] = client.nthreads()  # type: ignore[no-untyped-call]  # not typed
        free = _IN_FLIGHT * max(1, sum(threads.values())) - len(in_flight)
        for item in islice(rest, max(0, free)):
            with warnings.catch_warnings():
                # An item travels with its task, so that the task can be done again.
                warnings.filterwarnings("ignore", "Sending large graph")
                in_flight.append(client.submit(_run_task, spec, work, item, pure=False, retries=2))
        if not in_flight:
            return
        yield _result(in_flight.popleft())


@contextmanager
def local_cluster(workers: int) -> Iterator["Client"]:
    """Start worker processes on this machine, each with one thread."""
    if workers < 1:
        raise ConfigError(f"--workers {workers}: must be at least 1")
    distributed = _distributed()
    with (
        distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            memory_limit=0,  # a memory-mapped index would count as memory, and end its worker
            dashboard_address=None,
            silence_logs=50,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@contextmanager
def remote_cluster(address: str) -> Iterator["Client"]:
    """Connect to a running scheduler, such as tcp://node1:8786."""
    distributed = _distributed()
    try:
        client = distributed.Client(address, timeout=10)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{address}: no Dask scheduler answers there ({error})") from error
    with client:
        yield client


@contextmanager
def open_cluster(workers: str) -> Iterator["Client"]:
    """Start a number of local processes, or connect to the address of a scheduler."""
    is_address = "://" in workers
    if not is_address and not workers.isdecimal():
        raise ConfigError(f"--workers {workers}: give a number, or an address (tcp://host:8786)")
    with remote_cluster(workers) if is_address else local_cluster(int(workers)) as client:
        yield client


@contextmanager
def open_runner(workers: str | None, spec: StageSpec[Any]) -> Iterator[BatchRunner]:
    """Return what runs a stage: this process, or the workers of `open_cluster`."""
    if workers is None:
        yield run_locally
        return
    with open_cluster(workers) as client:
        yield cluster_runner(client, spec)


def _result(future: "Future[U]") -> U:
    distributed = _distributed()
    try:
        return future.result()
    except distributed.KilledWorker as error:
        problem = "a task was given up, for every worker that took it was lost"
        raise DataError(f"{problem}; do they run out of memory?") from error
    except CancelledError as error:
        raise DataError("the scheduler was lost; run the same command again to resume") from error


def _run_task(spec: StageSpec[S], work: Callable[[S, T], U], item: T) -> U:
    """Do one task; this runs on a worker."""
    try:
        with _OPENING:
            stage = _opened(spec)
        return work(stage, item)
    except JprError as error:  # as a plain one, which can always be pickled
        raise JprError(f"on a worker: {error}") from None


@lru_cache(maxsize=2)
def _opened(spec: StageSpec[S]) -> S:
    stage, key = spec.open(*spec.arguments)
    if key != spec.key:
        raise JprError(f"{spec.name}: differs between client and worker; copy it to the worker")
    return stage


def _as_list(work: Work, stage: object, items: list[Any]) -> list[Any]:
    return list(work(stage, items))


def _distributed() -> ModuleType:
    try:
        import distributed
    except ImportError as error:
        raise MissingExtraError("work over Dask workers", "dask") from error
    return distributed
