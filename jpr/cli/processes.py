"""Where a command does its work: in this process, in others beside it, or on a cluster."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jpr.errors import ConfigError

if TYPE_CHECKING:
    from distributed import Client

    from jpr.io.cluster import BatchRunner, StageSpec

Workers = Annotated[int | None, typer.Option(help="Processes to start here to share the work.")]
Scheduler = Annotated[
    str | None, typer.Option(help="Address of a Dask scheduler whose workers share it.")
]


@dataclass(frozen=True, slots=True)
class Processes:
    """What the two options say."""

    workers: int | None
    scheduler: str | None

    def __post_init__(self) -> None:
        if self.workers is not None and self.scheduler is not None:
            raise ConfigError(
                "--workers starts processes here, --scheduler uses others; choose one"
            )

    @property
    def is_this_one(self) -> bool:
        """Whether there is no other to share the work with."""
        return self.workers is None and self.scheduler is None

    @contextmanager
    def cluster(self) -> Iterator["Client"]:
        """Start or reach the others, for as long as they are needed."""
        from jpr.io.cluster import local_cluster, remote_cluster

        given = self.scheduler
        with remote_cluster(given) if given else local_cluster(self.workers or 0) as client:
            yield client

    @contextmanager
    def spread(self, opening: "StageSpec[Any]") -> Iterator["BatchRunner"]:
        """Say who does the work of a stage, which others open as it is said."""
        from jpr.io.cluster import cluster_runner, run_locally

        if self.is_this_one:
            yield run_locally
            return
        with self.cluster() as client:
            yield cluster_runner(client, opening)
