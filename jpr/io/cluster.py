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
from functools import lru_cache
from importlib import import_module
from itertools import islice
from threading import Lock
from typing import TYPE_CHECKING, Any

from jpr.errors import ConfigError, DataError, JprError, needs_extra
from jpr.stages import batched

if TYPE_CHECKING:
    from distributed import Client, Future

_IN_FLIGHT = 3  # tasks for each thread of a worker: one at work, the others on their way
_OPENING = Lock()  # the threads of a worker share the stage that one of them opens


@dataclass(frozen=True, slots=True)
class StageSpec:
    """How a worker opens the stage that it runs."""

    open: Callable[..., Any]  # returns the stage; of a module, so that it can be pickled
    arguments: tuple[Hashable, ...]
    key: str  # of the client's stage: the same key, the same results
    name: str  # for messages


Work = Callable[[Any, Iterable[Any]], Iterable[Any]]
"""Runs a stage on items: one result per item, in the same order."""
BatchRunner = Callable[[Work, Any, Iterable[Any], int], Iterable[Any]]
"""Does work with a stage on items: in this process, or in batches of this size on workers."""


def run_locally(work: Work, stage: object, items: Iterable[Any], batch: int) -> Iterable[Any]:
    """Run the stage in this process."""
    return work(stage, items)


def cluster_runner(client: "Client", spec: StageSpec) -> BatchRunner:
    """Return a runner that opens the same stage on the workers of a cluster."""

    def run(work: Work, stage: object, items: Iterable[Any], batch: int) -> Iterable[Any]:
        return cluster_map(client, spec, work, items, batch)

    return run


@contextmanager
def open_runner(workers: str | None, spec: StageSpec) -> Iterator[BatchRunner]:
    """Return what runs a stage: this process, or the workers of `open_cluster`."""
    if workers is None:
        yield run_locally
        return
    with open_cluster(workers) as client:
        yield cluster_runner(client, spec)


@contextmanager
def open_cluster(workers: str) -> Iterator["Client"]:
    """Start a number of local processes, or connect to the address of a scheduler."""
    with needs_extra("work over Dask workers", "dask"):
        distributed: Any = import_module("distributed")  # its classes have no types
    if "://" in workers:
        try:
            client = distributed.Client(workers, timeout=10)
        except (OSError, ValueError) as error:
            raise ConfigError(f"{workers}: no Dask scheduler answers there ({error})") from error
        with client:
            yield client
        return
    if not workers.isdecimal() or not int(workers):
        problem = "give a number from 1, or an address (tcp://host:8786)"
        raise ConfigError(f"--workers {workers}: {problem}")
    with (
        distributed.LocalCluster(
            n_workers=int(workers),
            threads_per_worker=1,
            memory_limit=0,  # a memory-mapped index would count as memory, and end its worker
            dashboard_address=None,
            silence_logs=50,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def cluster_map(
    client: "Client", spec: StageSpec, work: Work, items: Iterable[Any], batch: int
) -> Iterator[Any]:
    """Yield the result of each item, in their order; a task is a batch of them."""
    from distributed import KilledWorker

    rest = batched(items, batch)
    in_flight: deque[Future[list[Any]]] = deque()
    while True:
        threads: dict[str, int] = client.nthreads()  # type: ignore[no-untyped-call]  # not typed
        free = _IN_FLIGHT * max(1, sum(threads.values())) - len(in_flight)
        for some in islice(rest, max(0, free)):
            with warnings.catch_warnings():
                # The items travel with their task, so that the task can be done again.
                warnings.filterwarnings("ignore", "Sending large graph")
                in_flight.append(client.submit(_run_task, spec, work, some, pure=False, retries=2))
        if not in_flight:
            return
        try:
            results = in_flight.popleft().result()
        except KilledWorker as error:
            problem = "a task was given up, for every worker that took it was lost"
            raise DataError(f"{problem}; do they run out of memory?") from error
        except CancelledError as error:
            problem = "the scheduler was lost; run the same command again to resume"
            raise DataError(problem) from error
        yield from results


def _run_task(spec: StageSpec, work: Work, items: list[Any]) -> list[Any]:
    """Do one task; this runs on a worker."""
    try:
        with _OPENING:
            stage = _opened(spec)
        return list(work(stage, items))
    except JprError as error:  # as a plain one, which can always be pickled
        raise JprError(f"on a worker: {error}") from None


@lru_cache(maxsize=2)
def _opened(spec: StageSpec) -> Any:  # noqa: ANN401  any stage
    stage = spec.open(*spec.arguments)
    if stage.key != spec.key:
        raise JprError(f"{spec.name}: differs between client and worker; copy it to the worker")
    return stage
