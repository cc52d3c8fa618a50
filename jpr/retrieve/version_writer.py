"""A version of an index in the making: a new one, or one made from another.

Made from another, it takes over that one's files: what is never changed in place is linked, and
rows keep their numbers. A removed passage can no longer be found; its bytes stay until the next
full build.
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

if TYPE_CHECKING:  # words can do without faiss
    from jpr.retrieve.dense import VectorSource

MakeVectors = Callable[[Sequence[Passage], str], "VectorSource"]
"""What gives the vectors of passages; the string is these passages' hash."""


class VersionWriter:
    """A version in the making: a new one, or one made from another."""

    def __init__(self, version: Path, base: Path | None = None) -> None:
        for part in ("store", "bm25"):
            (version / part).mkdir()
        self._version, self._base = version, base
        self._old = base and PassageStore(base / "store")
        self._store = StoreWriter(version / "store", base and base / "store")
        self._words = Bm25Writer(version / "bm25", base and base / "bm25")
        self._removed: set[int] = set()
        self.fields: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self._store.__exit__(kind, *rest)
        self._words.__exit__(kind, *rest)

    def _row(self, id: str) -> int | None:
        row = self._old.row_of(id) if self._old else None
        return None if row in self._removed else row

    def holds(self, id: str) -> bool:
        """Tell whether the base has a passage of this id that is not removed yet."""
        return self._row(id) is not None

    def add(self, passage: Passage) -> None:
        """Append a passage."""
        if not passage.id:
            raise DataError("a passage has an empty id; give every passage an id")
        if self.holds(passage.id):
            raise DataError(f"passage id {passage.id!r} is in the index; --replace takes the new")
        self._words.add(self._store.add(passage), passage)
        self.fields.update(passage.meta)

    def remove(self, id: str) -> None:
        """Remove a passage of the base."""
        row = self._row(id)
        if row is None:
            raise DataError(f"passage id {id!r} is not in the index; nothing was removed")
        self._removed.add(row)
        self._words.remove(row)

    def close(self) -> Written:
        """Finish passages and words."""
        written = self._store.close(self._removed)
        self._words.close()
        return written

    def added(self) -> Sequence[Passage]:
        """Return the passages that were added, once the draft is closed."""
        return Rows(PassageStore(self._version / "store"), self._old.end if self._old else 0)

    def new_vectors(
        self, source: "VectorSource", encoder: str, nprobe: int | None
    ) -> DenseManifest:
        """Write the vectors of a new version."""
        from jpr.retrieve.dense import write_vectors

        _check_count(source, len(self.added()))
        target = self._version / "vectors"
        target.mkdir()
        return write_vectors(source, target, encoder=encoder, nprobe=nprobe)

    def change(
        self, before: IndexManifest, what: str, source: str, vectors: MakeVectors | None
    ) -> IndexManifest:
        """Finish a version that was made from another, and describe it."""
        written = self.close()
        if before.vectors and self._base:
            found = vectors(self.added(), written.sha256) if vectors else None
            self._keep_vectors(self._base / "vectors", before.vectors, found)
        chain = (before.corpus_sha256, what, written.sha256, sorted(self._removed))
        n_removed = len(self._removed)
        return self.describe(
            replace(
                before,
                passages=before.passages + written.passages - n_removed,
                rows=before.rows + written.passages,
                corpus_sha256=hashlib.sha256(repr(chain).encode()).hexdigest(),
                fields=tuple(sorted({*before.fields, *self.fields})),
                history=(*before.history, Change(what, source, written.passages, n_removed)),
            )
        )

    def _keep_vectors(self, base: Path, known: DenseManifest, more: "VectorSource | None") -> None:
        from jpr.retrieve.dense import extend_vectors

        target = self._version / "vectors"
        target.mkdir()
        if more is None:
            for path in base.iterdir():
                link(path, target / path.name)
            return
        _check_count(more, len(self.added()))
        if (more.key, more.dimension) != (known.key, known.dimension):
            raise DataError(
                f"the index has vectors of encoder {known.key}, not {more.key}; use that encoder"
            )
        extend_vectors(more, base, target)

    def describe(self, contents: IndexManifest) -> IndexManifest:
        """Write the manifest and return it."""
        whole = replace(
            contents,
            sizes=sizes(self._version),
            sums=sums(self._version, self._base, contents.sums),
        )
        write_manifest(whole, self._version)
        return whole


def _check_count(source: "VectorSource", wanted: int) -> None:
    if len(source) != wanted:
        raise DataError(f"there are {len(source):,} vectors for {wanted:,} passages; encode again")


class Rows(Sequence[Passage]):
    """The passages of a store from a row on."""

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
