"""Vectors on disk, by faiss: the passages of largest inner product.

Each number of a vector takes one byte (SQ8). Up to a million passages a search compares them all.
Above that they are sorted into about 2·√n lists around centroids (IVF), and a search looks at the
lists nearest to the question: as many as it takes to find `TARGET` of the exact 100 nearest. That
is measured when the vectors are written: `QUERIES` passages drawn at random are the questions
(their own row does not count), and the truth is the exact search over the vectors as they came.

The file is mapped into memory. faiss uses as many threads as the process allows it.
"""

from collections.abc import Iterator
from math import isqrt
from pathlib import Path
from typing import Any, Protocol

import faiss
import numpy as np
from numpy.typing import NDArray

from jpr.errors import ConfigError, DataError, FormatError
from jpr.io.atomic import explain_write_errors
from jpr.retrieve.index_manifest import DenseManifest
from jpr.stages import Progress

EXACT_UP_TO = 1_000_000
"""Passages up to which every vector is compared."""
TARGET = 0.99
"""Questions lie farther from passages than passages do: theirs is some points less."""
QUERIES = 256
_K = 100
_PER_LIST = 40
"""Vectors to learn a centroid from: faiss asks for 39 at least."""
_SAMPLE = 100_000
"""Vectors to learn the range of each dimension from."""
_FILE = "vectors.faiss"

_faiss: Any = faiss  # its stubs lack the arguments that faiss adds in Python
Vectors = NDArray[np.float32]
Rows = NDArray[np.int64]


class VectorSource(Protocol):
    """Vectors of passages, in the order of these, more than memory may hold."""

    @property
    def key(self) -> str:
        """The key of the encoder that made them."""

    @property
    def dimension(self) -> int:
        """How many numbers each has."""

    def __len__(self) -> int: ...

    def blocks(self) -> Iterator[Vectors]:
        """Yield them from the first on, some thousands at a time."""


def write_vectors(
    source: VectorSource,
    folder: Path,
    *,
    encoder: str = "",
    nprobe: int | None = None,
    exact_up_to: int = EXACT_UP_TO,
    progress: Progress = lambda _: None,
) -> DenseManifest:
    """Index vectors into an existing folder; `nprobe` looks at so many lists, come what may.

    Memory holds a byte a number, and the sample that the centroids are learnt from.
    """
    lists = 0 if len(source) <= exact_up_to else 2 * isqrt(len(source))
    rows = _drawn(len(source), _PER_LIST * lists or _SAMPLE)
    sample = _taken(source, rows)
    index = _untrained(source.dimension, lists)
    index.train(sample)
    chosen = np.random.default_rng(1).permutation(len(rows))[:QUERIES]
    truth = _Truth(rows[chosen], sample[chosen])
    del sample
    for block in source.blocks():
        truth.see(block, int(index.ntotal))
        index.add(_finite(block, int(index.ntotal)))
        progress(len(block))
    if index.ntotal != len(source):
        raise DataError(f"{index.ntotal:,} vectors came of {len(source):,} that were announced")
    _save(index, folder)
    probes, recall = _probes(index, truth, lists, nprobe)
    kind = "ivf-sq8" if lists else "sq8"
    return DenseManifest(
        encoder, source.key, source.dimension, kind, lists, probes, round(recall, 4)
    )


def extend_vectors(source: VectorSource, base: Path, folder: Path) -> None:
    """Write the vectors of another index and some more into an existing folder."""
    index = _load(base, 0)
    for block in source.blocks():
        index.add(_finite(block, int(index.ntotal)))
    _save(index, folder)


def _drawn(n: int, size: int) -> Rows:
    """Return some rows drawn at random, ascending; all where there are no more."""
    if n <= size:
        return np.arange(n)
    return np.sort(np.random.default_rng(0).choice(n, size, replace=False))


def _taken(source: VectorSource, rows: Rows) -> Vectors:
    """Return the vectors of some rows, ascending."""
    sample = np.empty((len(rows), source.dimension), np.float32)
    start = taken = 0
    for block in source.blocks():
        until = int(np.searchsorted(rows, start + len(block)))
        sample[taken:until] = _finite(block, start)[rows[taken:until] - start]
        start, taken = start + len(block), until
    return sample[:taken]


def _finite(block: Vectors, start: int) -> Vectors:
    if not np.isfinite(block).all():
        row = start + int(np.flatnonzero(~np.isfinite(block).all(axis=1))[0])
        raise DataError(f"the vector of passage {row} holds no finite number; encode it again")
    return np.ascontiguousarray(block, np.float32)


def _untrained(dimension: int, lists: int) -> Any:  # noqa: ANN401  faiss has no type for both
    code, metric = faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT
    if not lists:
        return faiss.IndexScalarQuantizer(dimension, code, metric)
    centroids = faiss.IndexFlatIP(dimension)
    index = faiss.IndexIVFScalarQuantizer(centroids, dimension, lists, code, metric)
    index.cp.spherical = True  # an inner product has no other meaningful mean
    index.cp.niter = 10
    index.cp.min_points_per_centroid = 1  # or faiss writes to the terminal
    index.cp.max_points_per_centroid = 10 * _PER_LIST
    return index


class _Truth:
    """The exact nearest of some vectors, found while all pass by."""

    def __init__(self, rows: Rows, queries: Vectors) -> None:
        self.own, self.queries = rows[:, None], queries
        self._scores = np.empty((len(rows), 0), np.float32)
        self._rows = np.empty((len(rows), 0), np.int64)

    def see(self, block: Vectors, start: int) -> None:
        """Compare all with a block of vectors that begins at a row."""
        k = min(_K + 1, len(block))
        scores, rows = faiss.knn(
            self.queries,
            np.ascontiguousarray(block, np.float32),
            k,
            metric=faiss.METRIC_INNER_PRODUCT,
        )
        scores = np.concatenate([self._scores, scores], axis=1)
        rows = np.concatenate([self._rows, rows + start], axis=1)
        best = np.argsort(-scores, axis=1, kind="stable")[:, : _K + 1]
        self._scores = np.take_along_axis(scores, best, axis=1)
        self._rows = np.take_along_axis(rows, best, axis=1)

    def recall(self, index: Any, parameters: Any) -> float:  # noqa: ANN401  faiss's own
        """Return the share of the nearest that an index finds."""
        k = self._rows.shape[1]
        _, found = index.search(self.queries, k, params=parameters)
        hits = asked = 0
        for own, true, got in zip(self.own, self._rows, found, strict=True):
            wanted = np.setdiff1d(true, own)
            asked += len(wanted)
            hits += len(np.intersect1d(wanted, got))
        return hits / asked if asked else 1.0


def _probes(index: Any, truth: _Truth, lists: int, wanted: int | None) -> tuple[int, float]:  # noqa: ANN401
    """Return how many lists to look at, and the recall that this has."""
    if not lists:
        return 0, truth.recall(index, None)
    nprobe = 1 if wanted is None else max(1, min(wanted, lists))
    while True:
        recall = truth.recall(index, _faiss.SearchParametersIVF(nprobe=nprobe))
        if wanted is not None or recall >= TARGET or nprobe == lists:
            return nprobe, recall
        nprobe = min(lists, nprobe + 1 + nprobe // 4)


def _save(index: Any, folder: Path) -> None:  # noqa: ANN401  faiss's own
    with explain_write_errors(folder, RuntimeError):
        faiss.write_index(index, str(folder / _FILE))


def _load(folder: Path, flags: int) -> Any:  # noqa: ANN401  faiss's own
    try:
        return faiss.read_index(str(folder / _FILE), flags)
    except RuntimeError as error:
        raise FormatError(folder, 0, f"holds no whole vectors ({error}); build it again") from error


class DenseSearcher:
    """Open vectors; threads may share them."""

    def __init__(self, folder: Path, contents: DenseManifest) -> None:
        """Map what `write_vectors` wrote."""
        self._index = _load(folder, faiss.IO_FLAG_MMAP_IFC)
        self._contents = contents
        if self._index.d != contents.dimension:
            raise FormatError(folder, 0, "is not what its manifest says; build it again")

    def __len__(self) -> int:
        return int(self._index.ntotal)

    def search(
        self, vectors: Vectors, k: int, rows: Rows | None = None
    ) -> list[list[tuple[int, float]]]:
        """Return (row, inner product) of the k best for each vector; equal ones by row.

        With `rows`, only these are found.
        """
        asked = np.ascontiguousarray(vectors, np.float32)
        dimension = self._contents.dimension
        if asked.ndim != 2 or asked.shape[1] != dimension:
            raise ConfigError(
                f"vectors of shape {asked.shape} do not fit an index of {dimension} dimensions"
            )
        k = min(k, len(self) if rows is None else len(rows))
        if k < 1 or not len(asked):
            return [[] for _ in asked]
        scores, found = self._index.search(asked, k, params=self._parameters(rows))
        return [
            sorted(
                ((row, score) for row, score in zip(at, of, strict=True) if row >= 0),
                key=lambda hit: (-hit[1], hit[0]),
            )
            for at, of in zip(found.tolist(), scores.tolist(), strict=True)
        ]

    def _parameters(self, rows: Rows | None) -> Any:  # noqa: ANN401  faiss's own
        selector = None if rows is None else _selector(rows, len(self))
        lists, nprobe = self._contents.lists, self._contents.nprobe
        if not lists:
            return _faiss.SearchParameters(sel=selector) if selector else None
        if rows is not None:  # the fewer are accepted, the further away they lie
            nprobe = min(lists, nprobe * len(self) // max(1, len(rows)))
        return _faiss.SearchParametersIVF(nprobe=nprobe, sel=selector)


def _selector(rows: Rows, n: int) -> Any:  # noqa: ANN401  faiss's own
    accepted = np.zeros(n, np.bool_)
    accepted[rows] = True
    return _faiss.IDSelectorBitmap(np.packbits(accepted, bitorder="little"))
