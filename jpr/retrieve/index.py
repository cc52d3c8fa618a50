"""An index on disk: passages with a lexical (BM25) and a dense index, built and changed as one.

DIR/CURRENT               "v3", the version in use
DIR/v3/manifest.json      counts, sizes, checksums, analyzer, encoder, history
DIR/v3/store/…            the passages
DIR/v3/bm25/…             the lexical index
DIR/v3/vectors/…          the dense index, if any
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from jpr.errors import ConfigError, FormatError
from jpr.formats.corpus.store import PassageStore
from jpr.retrieve.bm25 import Bm25Searcher
from jpr.retrieve.filters import Clauses, Filter, clauses
from jpr.retrieve.index_manifest import DenseManifest, IndexManifest, large_files, read_manifest
from jpr.retrieve.rank_fusion import Scored
from jpr.retrieve.version_writer import MakeVectors, VersionWriter
from jpr.retrieve.versions import UNFINISHED, next_version, open_current
from jpr.stages import Encoder
from jpr.types import Passage

if TYPE_CHECKING:  # a lexical index works without faiss and encoders
    from jpr.encode.vectors import StoredVectors
    from jpr.retrieve.dense import DenseSearcher

E = TypeVar("E", bound=Encoder)


class Index:
    """An open index; threads may share it."""

    manifest: IndexManifest

    def __init__(self, folder: str | Path) -> None:
        """Open the version in use; an incomplete one is an error."""
        self._folder = Path(folder)
        open_current(self._folder, self._open)
        self._accepted = lru_cache(maxsize=16)(self._accepted_rows)

    @classmethod
    def open(cls, folder: str | Path) -> "Index":
        """Open the index in a folder."""
        return cls(folder)

    def _open(self, version: Path) -> None:
        self.manifest = read_manifest(version)
        self._large = large_files(version, self.manifest)
        self._store = PassageStore(version / "store")
        self._bm25 = Bm25Searcher(version / "bm25")
        self._dense: DenseSearcher | None = None
        if self.manifest.vectors is not None:
            from jpr.retrieve import dense

            vectors, rows = self.manifest.vectors, self.manifest.rows
            self._dense = dense.DenseSearcher(version / "vectors", vectors, rows)
        passages = {len(self._store), len(self._bm25), self.manifest.passages}
        if len(passages) > 1 or self._store.end != self.manifest.rows:
            problem = "its parts hold different numbers of passages; build it again"
            raise FormatError(version, 0, problem)

    @property
    def store(self) -> PassageStore:
        """The passages."""
        self._large.check("store")
        return self._store

    @property
    def has_dense(self) -> bool:
        """Whether `search_dense` can be used."""
        return self._dense is not None

    @property
    def dense(self) -> DenseManifest:
        """What the dense part holds; an error if there is none."""
        return self._vectors.manifest

    @property
    def _vectors(self) -> "DenseSearcher":
        if self._dense is None:
            problem = "the index has no vectors; build it with an encoder, or use bm25"
            raise ConfigError(f"{self._folder}: {problem}")
        return self._dense

    @property
    def _lexical(self) -> Bm25Searcher:
        self._large.check("bm25")
        return self._bm25

    @property
    def key(self) -> str:
        """Two indexes with the same key give the same results."""
        return self.manifest.key

    def search_bm25(self, text: str, k: int, where: Filter | None = None) -> Scored:
        """Return (row, score) of the k best passages by BM25; all share a term with the text."""
        return self._lexical.search(text, k, clauses(where, self.manifest.fields))

    def search_dense(
        self, vectors: NDArray[np.float32], k: int, where: Filter | None = None
    ) -> list[Scored]:
        """Return, for each vector, (row, score) of the k passages of largest inner product."""
        dense, terms = self._vectors, clauses(where, self.manifest.fields)
        rows = self._accepted(terms) if terms or self.manifest.rows > len(self.store) else None
        self._large.check("vectors")
        return dense.search(vectors, k, rows)

    def _accepted_rows(self, terms: Clauses) -> NDArray[np.int64]:
        rows = self._lexical.rows(terms) if terms else np.sort(self.store.rows).astype(np.int64)
        if len(rows) and not 0 <= rows[0] <= rows[-1] < self.manifest.rows:
            raise FormatError(self._folder, 0, "has rows without passages; build it again")
        return rows


def build_index(
    passages: Iterable[Passage],
    folder: Path,
    *,
    source: str,
    vectors: MakeVectors | None = None,
    encoder: Encoder | None = None,
    encoder_folder: str = "",
    nprobe: int | None = None,
) -> IndexManifest:
    """Index a corpus: lexical, and dense if there are vectors or an encoder.

    An index that the folder already holds stays in use until the new one is complete.
    """
    vectors = vectors or (encoded_by(encoder, folder) if encoder else None)
    with next_version(folder) as (_, version), VersionWriter(version) as writer:
        for passage in passages:
            writer.add(passage)
        return writer.finish("build", source, vectors, encoder_folder=encoder_folder, nprobe=nprobe)


def add_to_index(
    passages: Iterable[Passage],
    folder: Path,
    *,
    source: str,
    replacing: bool = False,
    vectors: MakeVectors | None = None,
    encoder: Encoder | None = None,
) -> IndexManifest:
    """Add passages to an index; an id that it already has is an error, or is replaced."""
    vectors = vectors or (encoded_by(encoder, folder) if encoder else None)
    with change_index(folder) as writer:
        if writer.before.vectors and not vectors:
            raise ConfigError(f"{folder}: a dense index; new passages need vectors or an encoder")
        if vectors and not writer.before.vectors:
            raise ConfigError(f"{folder}: the index has no vectors to add to; build it again")
        for passage in passages:
            writer.add(passage, replacing=replacing)
        return writer.finish("add", source, vectors)


def remove_from_index(ids: Iterable[str], folder: Path) -> IndexManifest:
    """Remove passages from an index; an unknown id is an error."""
    with change_index(folder) as writer:
        for id in dict.fromkeys(ids):
            writer.remove(id)
        return writer.finish("remove", "")


@contextmanager
def change_index(folder: Path) -> Iterator[VersionWriter]:
    """Yield a writer of the next version, which is published afterwards."""
    with next_version(folder) as (base, version):
        if base is None:
            raise ConfigError(f"{folder}: no index to change; build one first")
        with VersionWriter(version, base) as writer:
            yield writer


def encoded_by(
    encoder: E,
    folder: Path,
    encode: "Callable[[Iterable[Passage], int, E, Path], StoredVectors] | None" = None,
) -> MakeVectors:
    """Return a function that encodes the passages of the index in `folder`.

    It calls `encode`, by default `vectors_for`, with a subfolder that stays until the index is
    complete, so that a killed build resumes.
    """

    def vectors(passages: Iterable[Passage], n: int, sha256: str) -> "StoredVectors":
        name = hashlib.sha256(f"{sha256} {encoder.key}".encode()).hexdigest()[:16]
        into = folder / f"{UNFINISHED}{name}"
        if encode:
            return encode(passages, n, encoder, into)
        from jpr.encode.vectors import vectors_for

        return vectors_for(passages, encoder, into)

    return vectors
