"""The engine `files`: words and vectors in a folder of this machine."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from jpr.retrieve.engines import IndexOptions
from jpr.retrieve.filters import Filter
from jpr.retrieve.index import Index, add_to_index, build_index, remove_from_index
from jpr.retrieve.index_manifest import IndexManifest
from jpr.retrieve.retrievers import (
    Bm25Retriever,
    DenseRetriever,
    HybridRetriever,
    KeyedRetriever,
    encoder_of,
)
from jpr.stages import Encoder
from jpr.types import Passage


def build(passages: Iterable[Passage], wanted: IndexOptions) -> str:
    """Build an index and publish it."""
    made = build_index(
        passages,
        wanted.folder,
        source=wanted.source,
        vectors=wanted.vectors_of(),
        encoder_folder=wanted.encoder_folder,
        nprobe=wanted.nprobe,
    )
    return _told(made, wanted.folder)


def add(passages: Iterable[Passage], wanted: IndexOptions) -> str:
    """Add passages, whose vectors the index's own encoder makes if nothing else is said."""
    known = Index(wanted.folder).manifest.vectors
    if wanted.encoder is not None or wanted.vectors is not None:
        vectors = wanted.vectors_of()
    else:
        vectors = replace(wanted, encoder=known.encoder or None).vectors_of() if known else None
    made = add_to_index(
        passages,
        wanted.folder,
        source=wanted.source,
        replacing=wanted.replacing,
        vectors=vectors,
    )
    return _told(made, wanted.folder)


def remove(ids: Iterable[str], folder: Path) -> str:
    """Remove passages."""
    return _told(remove_from_index(ids, folder), folder)


def open_retriever(
    folder: Path, kind: str | None, encoder: Encoder | None, where: Filter | None, threads: int
) -> KeyedRetriever:
    """Open an index; without a `kind`, hybrid where there are vectors, else BM25."""
    index = Index(folder)
    if kind == "bm25" or (kind is None and not index.has_dense):
        return Bm25Retriever(index, where)
    retriever = DenseRetriever if kind == "dense" else HybridRetriever
    return retriever(index, encoder or encoder_of(index, threads), where)


def _told(made: IndexManifest, folder: Path) -> str:
    what = f"{made.passages:,} passages are indexed in {folder}"
    if made.vectors is None:
        return f"{what}, by their words"
    found = f"recall@100 of a search by vectors is {made.vectors.recall:.3f}"
    return f"{what}, by words and vectors; {found}"
