"""Chunks of passages over the workers of a Dask cluster."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from jpr.encode.encoder import TextEncoder, Vectors
from jpr.encode.encoder_folder import load_encoder
from jpr.encode.vectors import Chunk, MapChunks
from jpr.io.cluster import StageSpec, cluster_map
from jpr.stages import Encoder
from jpr.types import Passage

if TYPE_CHECKING:
    from distributed import Client

_Rows = tuple[int, list[tuple[str, str]]]
"""A chunk's number, and the titles and texts of its passages: all that is encoded."""


def encode_on_workers(client: "Client", folder: Path | None, device: str = "auto") -> MapChunks:
    """Return what encodes chunks on a cluster, with the encoder of a folder."""
    path = None if folder is None else folder.resolve()

    def map_chunks(chunks: Iterable[Chunk], encoder: Encoder) -> Iterator[tuple[int, Vectors]]:
        opening = StageSpec(_open, (path, device), encoder.key, f"{path or 'our own encoder'}")
        rows = ((number, [(p.title, p.text) for p in passages]) for number, passages in chunks)
        return cluster_map(client, opening, _encoded, rows)

    return map_chunks


def _open(path: Path | None, device: str) -> tuple[TextEncoder, str]:
    encoder = load_encoder(path, device, threads=1)
    return encoder, encoder.key


def _encoded(encoder: TextEncoder, chunk: _Rows) -> tuple[int, Vectors]:
    number, rows = chunk
    return number, encoder.encode_passages([Passage("", title, text) for title, text in rows])
