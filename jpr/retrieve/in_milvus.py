"""The engine `milvus`: passages and vectors in Milvus, and a file that says where they are."""

from collections.abc import Iterable
from pathlib import Path

from jpr.errors import ConfigError
from jpr.retrieve.engines import NO_ENCODER, IndexOptions
from jpr.retrieve.filters import Filter
from jpr.retrieve.milvus import MilvusRetriever
from jpr.stages import Encoder
from jpr.types import Passage


def build(passages: Iterable[Passage], wanted: IndexOptions) -> str:
    """Encode and upload."""
    from jpr.encode.encoder_folder import load_encoder
    from jpr.retrieve.milvus_build import Encoded, Stored, build_milvus

    if wanted.uri is None:
        raise ConfigError("--engine milvus needs --uri: the address of a server, or a file, x.db")
    if wanted.encoder == NO_ENCODER:
        raise ConfigError("Milvus holds vectors; name an encoder, or --vectors")
    found = wanted.stored()
    made = build_milvus(
        passages,
        wanted.folder,
        Stored(found) if found else Encoded(load_encoder(wanted.encoder_folder or None)),
        uri=wanted.uri,
        alias=wanted.collection or "jpr",
        graph=wanted.graph or "hnsw",
        source=wanted.source,
        encoder_folder=wanted.encoder_folder,
    )
    return f"{made.passages:,} passages are indexed in Milvus at {wanted.uri}"


def open_retriever(
    folder: Path, kind: str | None, encoder: Encoder | None, where: Filter | None, threads: int
) -> MilvusRetriever:
    """Connect to what the folder leads to."""
    if kind not in (None, "dense"):
        raise ConfigError(
            f"{folder}: an index in Milvus holds vectors only; use the retriever dense, or "
            "index the corpus without --engine milvus"
        )
    return MilvusRetriever(folder, encoder, where, threads)
