"""The engine `files`: a lexical and a dense index in a folder of this machine.

`build`, `add`, `remove` and `repair` return a summary; a build leaves the engine's marker in the
folder.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from jpr.errors import ConfigError
from jpr.retrieve.engines import NO_ENCODER, IndexOptions
from jpr.retrieve.filters import Filter
from jpr.retrieve.index import Index, add_to_index, build_index, remove_from_index
from jpr.retrieve.index_manifest import IndexManifest, load_manifest
from jpr.retrieve.repair import repair_index
from jpr.retrieve.retrievers import Bm25Retriever, DenseRetriever, HybridRetriever, KeyedRetriever
from jpr.retrieve.versions import open_current
from jpr.stages import Encoder
from jpr.types import Passage

if TYPE_CHECKING:  # a lexical index works without faiss
    from jpr.retrieve.dense import VectorSource


def build(passages: Iterable[Passage], options: IndexOptions) -> str:
    """Build an index and publish it."""
    made = build_index(
        passages,
        options.folder,
        source=options.source,
        vectors=options.make_vectors(),
        encoder_folder=options.encoder_folder,
        nprobe=options.settings.nprobe,
    )
    return _summary(made, options.folder)


def add(passages: Iterable[Passage], options: IndexOptions) -> str:
    """Add passages; unless the options say otherwise, the index's own encoder encodes them."""
    known = Index(options.folder).manifest.vectors
    if options.encoder is None and options.vectors is None:
        options = replace(options, encoder=known.encoder if known else NO_ENCODER)
    made = add_to_index(
        passages,
        options.folder,
        source=options.source,
        replacing=options.settings.replace,
        vectors=options.make_vectors(),
    )
    return _summary(made, options.folder)


def remove(ids: Iterable[str], folder: Path) -> str:
    """Remove passages."""
    return _summary(remove_from_index(ids, folder), folder)


def repair(options: IndexOptions) -> str:
    """Make damaged parts again; vectors come from the options or from the index's own encoder."""
    manifest = open_current(options.folder, load_manifest)
    if options.encoder is None and manifest.vectors:
        options = replace(options, encoder=manifest.vectors.encoder)

    def vectors(passages: Iterable[Passage], n: int, digest: str) -> "VectorSource":
        make = options.make_vectors()
        if make is None:
            raise ConfigError(f"{options.folder}: its vectors are damaged; name their encoder")
        if options.stored:
            deque(options.checked(iter(passages)), maxlen=0)
        return make(passages, n, digest)

    made = repair_index(options.folder, vectors, options.encoder_folder)
    again = made.history[-1].source
    return f"made again in {options.folder}: {again or 'nothing, for nothing was damaged'}"


def open_retriever(
    folder: Path, kind: str | None, encoder: Encoder | None, where: Filter | None, threads: int
) -> KeyedRetriever:
    """Open an index; without a `kind`, hybrid if it has vectors, else BM25.

    Without an encoder its own is opened, to run on `threads` threads; 0 is one per core.
    """
    index = Index(folder)
    if kind == "bm25" or (kind is None and not index.has_dense):
        return Bm25Retriever(index, where)
    if encoder is None:
        from jpr.encode.encoder_folder import load_encoder  # heavy: not for BM25

        encoder = load_encoder(index.dense.encoder or None, threads=threads)
    retriever = DenseRetriever if kind == "dense" else HybridRetriever
    return retriever(index, encoder, where)


def _summary(made: IndexManifest, folder: Path) -> str:
    if made.vectors is None:
        return f"indexed {made.passages:,} passages in {folder}, lexical (BM25) only"
    recall = f"recall@100 of dense search is {made.vectors.recall:.3f}"
    return f"indexed {made.passages:,} passages in {folder}, lexical (BM25) and dense; {recall}"
