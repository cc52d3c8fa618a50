"""Chunks of passages over the workers of a Dask cluster.

Each worker opens the encoder once, from its folder, which must be at the same place everywhere. A
bounded number of chunks is under way, so that memory does not grow with the corpus. A worker that
is lost takes its chunk with it; another worker, or the one that takes its place, does it again.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from jpr.encode.encoder import TextEncoder, Vectors
from jpr.encode.folder import load_encoder
from jpr.encode.vectors import Chunk, MapChunks
from jpr.errors import ConfigError, DataError, JprError, MissingExtraError
from jpr.stages import Encoder
from jpr.types import Passage

if TYPE_CHECKING:
    from distributed import Client

_AHEAD = 3
"""Chunks under way for each worker: one at work, the others on their way or back."""
_RETRIES = 2
"""How often a chunk that failed, on a worker that lives, is tried again."""


@contextmanager
def local_cluster(workers: int) -> Iterator["Client"]:
    """Start so many processes on this machine, each with one thread."""
    if workers < 1:
        raise ConfigError(f"--workers {workers}: start at least one")
    distributed = _distributed()
    with (
        distributed.LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=None, silence_logs=50
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


def over_workers(client: "Client", folder: Path | None, device: str = "auto") -> MapChunks:
    """Return what encodes chunks on a cluster, with the encoder of a folder."""
    path = None if folder is None else str(folder.resolve())

    def map_chunks(chunks: Iterable[Chunk], encoder: Encoder) -> Iterator[tuple[int, Vectors]]:
        yield from _mapped(client, chunks, (path, device, encoder.key))

    return map_chunks


def _mapped(
    client: "Client", chunks: Iterable[Chunk], encoder: tuple[str | None, str, str]
) -> Iterator[tuple[int, Vectors]]:
    distributed = _distributed()
    rest = iter(chunks)
    running = distributed.as_completed()
    workers: dict[str, int] = client.nthreads()  # type: ignore[no-untyped-call]  # not typed there
    ahead = _AHEAD * max(1, len(workers))

    def send(wanted: int) -> None:
        for number, passages in islice(rest, wanted):
            rows = [(passage.title, passage.text) for passage in passages]
            future = client.submit(_encode, encoder, number, rows, pure=False, retries=_RETRIES)
            running.add(future)

    send(ahead)
    for future in running:
        try:
            found: tuple[int, Vectors] = future.result()
        except distributed.KilledWorker as error:
            raise DataError(
                "a chunk was given up: every worker that took it was lost; is memory short there?"
            ) from error
        future.release()
        yield found
        send(1)


def _encode(
    encoder: tuple[str | None, str, str], number: int, rows: list[tuple[str, str]]
) -> tuple[int, Vectors]:
    """Encode one chunk; this runs on a worker."""
    path, device, key = encoder
    opened = _opened(path, device)
    if opened.key != key:
        raise JprError(f"{path}: holds another encoder on a worker than here; copy it there")
    passages = [Passage("", title, text) for title, text in rows]
    return number, opened.encode_passages(passages)


@cache
def _opened(path: str | None, device: str) -> TextEncoder:
    return load_encoder(path, device, threads=1)


def _distributed() -> ModuleType:
    try:
        import distributed
    except ImportError as error:
        raise MissingExtraError("encoding over workers", "dask") from error
    return distributed
