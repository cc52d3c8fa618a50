"""An index on disk: passages, their words and their vectors, made and changed as one.

DIR/CURRENT               "v3", the version in use
DIR/v3/manifest.json      what is inside: counts, sizes, analyser, encoder, history
DIR/v3/store/…            the passages
DIR/v3/bm25/…             the words
DIR/v3/vectors/…          the vectors, if there are any
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from jpr.errors import ConfigError, FormatError
from jpr.formats.corpus.store import PassageStore
from jpr.retrieve.bm25 import ANALYSER, Bm25Searcher
from jpr.retrieve.filters import Clauses, Filter, clauses
from jpr.retrieve.index_manifest import Change, IndexManifest, verified_manifest
from jpr.retrieve.version_writer import MakeVectors, VersionWriter
from jpr.retrieve.versions import KEPT, next_version, open_current
from jpr.stages import Encoder, Progress
from jpr.types import Passage

if TYPE_CHECKING:  # words can do without faiss and encoders
    from jpr.encode.vectors import MapChunks
    from jpr.retrieve.dense import DenseSearcher, VectorSource

_CHUNK = 1024
"""Passages encoded before they are safe from a kill: a minute's work on one core."""

Scored = list[tuple[int, float]]
"""Rows with their scores, best first."""


class Index:
    """An open index; threads may share it."""

    manifest: IndexManifest
    store: PassageStore

    def __init__(self, folder: str | Path) -> None:
        """Open the version in use, refusing one that is not whole."""
        self._folder = Path(folder)
        open_current(self._folder, self._open)
        self._accepted = lru_cache(maxsize=16)(self._rows_accepted)

    @classmethod
    def open(cls, folder: str | Path) -> "Index":
        """Open the index in a folder."""
        return cls(folder)

    def _open(self, version: Path) -> None:
        self.manifest = verified_manifest(version)
        self.store = PassageStore(version / "store")
        self._bm25 = Bm25Searcher(version / "bm25")
        self._dense = self._open_vectors(version / "vectors")
        live = {len(self.store), len(self._bm25), self.manifest.passages}
        rows = {self.store.end, self.manifest.rows, *([len(self._dense)] if self._dense else [])}
        if len(live) > 1 or len(rows) > 1:
            raise FormatError(
                version, 0, "its parts hold different numbers of passages; build it again"
            )

    def _open_vectors(self, folder: Path) -> "DenseSearcher | None":
        if self.manifest.vectors is None:
            return None
        from jpr.retrieve.dense import DenseSearcher  # words can do without faiss

        return DenseSearcher(folder, self.manifest.vectors)

    @property
    def has_dense(self) -> bool:
        """Whether `search_dense` can be used."""
        return self._dense is not None

    @property
    def key(self) -> str:
        """Names what is inside: indexes with the same key give the same answers."""
        return self.manifest.key

    def search_bm25(self, text: str, k: int, where: Filter | None = None) -> Scored:
        """Return the k best passages by BM25; fewer where no more hold a word of the text."""
        return self._bm25.search(text, k, self._clauses(where))

    def search_dense(
        self, vectors: NDArray[np.float32], k: int, where: Filter | None = None
    ) -> list[Scored]:
        """Return for each vector the k passages of largest inner product."""
        if self._dense is None:
            raise ConfigError(f"{self._folder}: the index has no vectors; build it with an encoder")
        asked = self._clauses(where)
        rows = self._accepted(asked) if asked or self.manifest.rows > len(self.store) else None
        return self._dense.search(vectors, k, rows)

    def _clauses(self, where: Filter | None) -> Clauses:
        return clauses(where, self.manifest.fields) if where else ()

    def _rows_accepted(self, asked: Clauses) -> NDArray[np.int64]:
        return self._bm25.rows(asked) if asked else np.sort(self.store.rows).astype(np.int64)


def build_index(
    passages: Iterable[Passage],
    folder: Path,
    *,
    source: str,
    vectors: MakeVectors | None = None,
    encoder: Encoder | None = None,
    encoder_folder: str = "",
    nprobe: int | None = None,
    progress: Progress = lambda _: None,
) -> IndexManifest:
    """Index a corpus into a folder: its words, and vectors, given or made by an encoder, if any.

    An index that is already there stays in use until the new one is whole, and is then removed.
    """
    if encoder is not None:
        vectors = vectors or encoded_by(encoder, folder)
    with next_version(folder) as (_, version), VersionWriter(version) as draft:
        for passage in passages:
            draft.add(passage)
            progress(1)
        written = draft.close()
        made = None
        if vectors:
            found = vectors(draft.added(), written.sha256)
            made = draft.new_vectors(found, encoder_folder, nprobe)
        return draft.describe(
            IndexManifest(
                passages=written.passages,
                rows=written.passages,
                source=source,
                corpus_sha256=written.sha256,
                analyser=ANALYSER,
                fields=tuple(sorted({"title", *draft.fields})),
                vectors=made,
                history=(Change("build", source, written.passages, 0),),
                sizes={},
            )
        )


def add_to_index(
    passages: Iterable[Passage],
    folder: Path,
    *,
    source: str,
    replacing: bool = False,
    vectors: MakeVectors | None = None,
    encoder: Encoder | None = None,
    progress: Progress = lambda _: None,
) -> IndexManifest:
    """Add passages to an index; one whose id is there is an error, or takes its place."""
    if encoder is not None:
        vectors = vectors or encoded_by(encoder, folder)
    with next_version(folder) as (base, version):
        before = _before(folder, base)
        if before.vectors and not vectors:
            raise ConfigError(f"{folder}: the index has vectors, so new passages need theirs")
        if vectors and not before.vectors:
            raise ConfigError(f"{folder}: the index has no vectors to add to; build it again")
        with VersionWriter(version, base) as draft:
            for passage in passages:
                if replacing and draft.holds(passage.id):
                    draft.remove(passage.id)
                draft.add(passage)
                progress(1)
            return draft.change(before, "add", source, vectors)


def remove_from_index(ids: Iterable[str], folder: Path) -> IndexManifest:
    """Remove passages from an index; an id that is not there is an error."""
    with next_version(folder) as (base, version):
        before = _before(folder, base)
        with VersionWriter(version, base) as draft:
            for id in dict.fromkeys(ids):
                draft.remove(id)
            return draft.change(before, "remove", "", None)


def encoded_by(
    encoder: Encoder,
    folder: Path,
    *,
    map_chunks: "MapChunks | None" = None,
    watched: Callable[[int], AbstractContextManager[Progress]] = lambda _: nullcontext(
        lambda _: None
    ),
) -> MakeVectors:
    """Return what encodes the passages of an index in `folder`.

    Finished chunks stay there until the index is whole: a killed build goes on after them.
    """
    from jpr.encode.vectors import encode_here, encode_to_folder, open_vectors

    def vectors(passages: Sequence[Passage], sha256: str) -> "VectorSource":
        name = hashlib.sha256(f"{sha256} {encoder.key}".encode()).hexdigest()
        kept = folder / f"{KEPT}{name[:16]}"
        with watched(len(passages)) as progress:
            encode_to_folder(
                passages,
                encoder,
                kept,
                chunk=_CHUNK,
                map_chunks=map_chunks or encode_here,
                progress=progress,
            )
        return open_vectors(kept)

    return vectors


def _before(folder: Path, base: Path | None) -> IndexManifest:
    if base is None:
        raise ConfigError(f"{folder}: there is no index to change; build one first")
    return verified_manifest(base, inf)  # else the new one would vouch for what is damaged
