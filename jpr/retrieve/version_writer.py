"""The next version of an index: a new one, or a change of another.

A change links the base's files that are never modified in place, and rows keep their numbers. A
removed passage is no longer found; its bytes stay until the next full build.
"""

import hashlib
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from jpr.errors import DataError
from jpr.formats.corpus.store import PassageStore, StoreWriter
from jpr.io.atomic import link
from jpr.retrieve.bm25 import ANALYZER, Bm25Writer
from jpr.retrieve.index_manifest import (
    Change,
    DenseManifest,
    IndexManifest,
    read_manifest,
    write_manifest,
)
from jpr.types import Passage

if TYPE_CHECKING:  # a lexical index works without faiss
    from jpr.retrieve.dense import VectorSource

MakeVectors = Callable[[Iterable[Passage], int, str], "VectorSource"]
"""Returns the vectors of passages, given their number and a hash of them."""


class VersionWriter(ExitStack):
    """Writes one version into an empty folder, from scratch or from a base version."""

    def __init__(self, version: Path, base: Path | None = None) -> None:
        super().__init__()
        self.before = IndexManifest(0, 0, "", "", ANALYZER, ("title",), None, (), {})
        if base:  # all checksums are verified, or the new manifest would vouch for damaged files
            self.before = read_manifest(base, inf)
        for part in ("store", "bm25"):
            (version / part).mkdir()
        self._version, self._base = version, base
        self._old = base and PassageStore(base / "store")
        self._store = self.enter_context(StoreWriter(version / "store", base and base / "store"))
        self._bm25 = self.enter_context(Bm25Writer(version / "bm25", base and base / "bm25"))
        self._removed: set[int] = set()
        self._fields: set[str] = set()

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
                    f"passage id {passage.id!r} is in the index; replace it with --set replace=true"
                )
            self.remove(passage.id)
        self._bm25.add(self._store.add(passage), passage)
        self._fields.update(passage.meta)

    def remove(self, id: str) -> None:
        """Remove a passage of the base."""
        row = self._row(id)
        if row is None:
            raise DataError(f"passage id {id!r} is not in the index; nothing was removed")
        self._removed.add(row)
        self._bm25.remove(row)

    def finish(
        self,
        what: str,
        source: str,
        vectors: MakeVectors | None = None,
        *,
        encoder_folder: str = "",
        nprobe: int | None = None,
    ) -> IndexManifest:
        """Complete the version and write its manifest."""
        written = self._store.close(self._removed)
        self._bm25.close()
        before, digest = self.before, written.sha256
        if self._base:
            chain = (before.corpus_sha256, what, digest, sorted(self._removed))
            digest = hashlib.sha256(repr(chain).encode()).hexdigest()
        found, n_added = None, written.passages
        if vectors:
            store = PassageStore(self._version / "store")
            added = (store[row] for row in range(store.end - n_added, store.end))
            found = vectors(added, n_added, written.sha256)
            if len(found) != n_added:
                raise DataError(f"{len(found):,} vectors for {n_added:,} passages; encode again")
        dense = self._write_dense(found, encoder_folder, nprobe)
        n_removed = len(self._removed)
        manifest = replace(
            before,
            passages=before.passages + n_added - n_removed,
            rows=before.rows + n_added,
            source=before.source if self._base else source,
            corpus_sha256=digest,
            fields=tuple(sorted({*before.fields, *self._fields})),
            vectors=dense,
            history=(*before.history, Change(what, source, n_added, n_removed)),
        )
        return write_manifest(self._version, manifest, self._base)

    def _write_dense(
        self, source: "VectorSource | None", encoder: str, nprobe: int | None
    ) -> DenseManifest | None:
        """Write the dense index: a new one, or that of the base with more vectors if any."""
        known = self.before.vectors
        base, folder = (self._base or self._version) / "vectors", self._version / "vectors"
        if known or source is not None:
            folder.mkdir()
        if source is None:
            for path in base.iterdir() if known else ():
                link(path, folder / path.name)
            return known
        from jpr.retrieve.dense import extend_vectors, write_vectors

        if known is None:
            return write_vectors(source, folder, encoder=encoder, nprobe=nprobe)
        if (source.key, source.dimension) != (known.key, known.dimension):
            raise DataError(
                f"the index has vectors of encoder {known.key}, not {source.key}; use that encoder"
            )
        extend_vectors(source, base, folder, known, self.before.rows)
        return known
