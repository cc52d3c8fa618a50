"""The next version of an index: a new one, or a change of another.

A change links the base's files that are never modified in place, and rows keep their numbers. A
removed passage is no longer found; its bytes stay until the next full build.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self, overload

from jpr.errors import DataError
from jpr.formats.corpus.store import PassageStore, StoreWriter, Written
from jpr.io.atomic import link
from jpr.retrieve.bm25 import Bm25Writer
from jpr.retrieve.index_manifest import (
    Change,
    DenseManifest,
    IndexManifest,
    sizes,
    sums,
    write_manifest,
)
from jpr.types import Passage

if TYPE_CHECKING:  # a lexical index works without faiss
    from jpr.retrieve.dense import VectorSource

MakeVectors = Callable[[Sequence[Passage], str], "VectorSource"]
"""Returns the vectors of passages; the string is a hash of these passages."""


class VersionWriter:
    """Writes one version into an empty folder, from scratch or from a base version."""

    def __init__(self, version: Path, base: Path | None = None) -> None:
        for part in ("store", "bm25"):
            (version / part).mkdir()
        self._version, self._base = version, base
        self._old = base and PassageStore(base / "store")
        self._store = StoreWriter(version / "store", base and base / "store")
        self._bm25 = Bm25Writer(version / "bm25", base and base / "bm25")
        self._removed: set[int] = set()
        self.fields: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self._store.__exit__(kind, *rest)
        self._bm25.__exit__(kind, *rest)

    def _row(self, id: str) -> int | None:
        row = self._old.row_of(id) if self._old else None
        return None if row in self._removed else row

    def add(self, passage: Passage, *, replacing: bool = False) -> None:
        """Append a passage; with `replacing`, one with the same id in the base is removed."""
        if not passage.id:
            raise DataError("a passage has an empty id; give every passage an id")
        if self._row(passage.id) is not None:
            if not replacing:
                raise DataError(
                    f"passage id {passage.id!r} is in the index; replace it with --replace"
                )
            self.remove(passage.id)
        self._bm25.add(self._store.add(passage), passage)
        self.fields.update(passage.meta)

    def remove(self, id: str) -> None:
        """Remove a passage of the base."""
        row = self._row(id)
        if row is None:
            raise DataError(f"passage id {id!r} is not in the index; nothing was removed")
        self._removed.add(row)
        self._bm25.remove(row)

    def close(self) -> Written:
        """Finish the store and the lexical index."""
        written = self._store.close(self._removed)
        self._bm25.close()
        return written

    def added(self) -> Sequence[Passage]:
        """Return the added passages; only after `close`."""
        return _StoreTail(PassageStore(self._version / "store"), self._old.end if self._old else 0)

    def build_dense(
        self, source: "VectorSource", encoder: str, nprobe: int | None
    ) -> DenseManifest:
        """Write the dense index of a version without a base."""
        from jpr.retrieve.dense import write_vectors

        return write_vectors(source, self._dense_folder(source), encoder=encoder, nprobe=nprobe)

    def finish_change(
        self, before: IndexManifest, what: str, source: str, vectors: MakeVectors | None
    ) -> IndexManifest:
        """Finish a version with a base, and write its manifest."""
        written = self.close()
        if before.vectors and self._base:
            found = vectors(self.added(), written.sha256) if vectors else None
            self._extend_dense(self._base / "vectors", before.vectors, found)
        chain = (before.corpus_sha256, what, written.sha256, sorted(self._removed))
        n_removed = len(self._removed)
        return self.finish(
            replace(
                before,
                passages=before.passages + written.passages - n_removed,
                rows=before.rows + written.passages,
                corpus_sha256=hashlib.sha256(repr(chain).encode()).hexdigest(),
                fields=tuple(sorted({*before.fields, *self.fields})),
                history=(*before.history, Change(what, source, written.passages, n_removed)),
            )
        )

    def _extend_dense(self, base: Path, known: DenseManifest, more: "VectorSource | None") -> None:
        folder = self._dense_folder(more)
        if more is None:
            for path in base.iterdir():
                link(path, folder / path.name)
            return
        if (more.key, more.dimension) != (known.key, known.dimension):
            raise DataError(
                f"the index has vectors of encoder {known.key}, not {more.key}; use that encoder"
            )
        from jpr.retrieve.dense import extend_vectors

        extend_vectors(more, base, folder)

    def _dense_folder(self, source: "VectorSource | None") -> Path:
        """Make the folder of the dense index, after a check that each passage has a vector."""
        count = len(self.added())
        if source is not None and len(source) != count:
            raise DataError(f"{len(source):,} vectors for {count:,} passages; encode again")
        folder = self._version / "vectors"
        folder.mkdir()
        return folder

    def finish(self, manifest: IndexManifest) -> IndexManifest:
        """Write the manifest, with sizes and checksums, and return it."""
        complete = replace(
            manifest,
            sizes=sizes(self._version),
            sums=sums(self._version, self._base, manifest.sums),
        )
        write_manifest(complete, self._version)
        return complete


class _StoreTail(Sequence[Passage]):
    """The passages of a store from one row to its end."""

    def __init__(self, store: PassageStore, first: int) -> None:
        self._store, self._first = store, first

    def __len__(self) -> int:
        return self._store.end - self._first

    @overload
    def __getitem__(self, at: int) -> Passage: ...
    @overload
    def __getitem__(self, at: slice) -> list[Passage]: ...
    def __getitem__(self, at: int | slice) -> Passage | list[Passage]:
        rows = range(self._first, self._store.end)[at]
        return self._store[rows] if isinstance(rows, int) else [self._store[row] for row in rows]
