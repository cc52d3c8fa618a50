"""`--workers`: run a stage in this process, in local processes, or on a Dask cluster."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from jpr.errors import ConfigError

if TYPE_CHECKING:
    from distributed import Client

    from jpr.io.cluster import BatchRunner, StageSpec


@contextmanager
def cluster(workers: str) -> Iterator["Client"]:
    """Start local processes, or connect to a scheduler."""
    from jpr.io.cluster import local_cluster, remote_cluster

    is_address = "://" in workers
    if not is_address and not workers.isdecimal():
        raise ConfigError(
            f"--workers {workers}: give a number, or an address such as tcp://host:8786"
        )
    with remote_cluster(workers) if is_address else local_cluster(int(workers)) as client:
        yield client


@contextmanager
def spread(workers: str | None, opening: "StageSpec[Any]") -> Iterator["BatchRunner"]:
    """Return what runs a stage: here, or on workers that open it themselves."""
    from jpr.io.cluster import cluster_runner, run_locally

    if workers is None:
        yield run_locally
        return
    with cluster(workers) as client:
        yield cluster_runner(client, opening)
