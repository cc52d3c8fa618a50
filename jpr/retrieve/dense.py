"""The dense index, with faiss: the passages of largest inner product.

Vectors are quantized to one byte per value (SQ8). Up to a million passages a search is exhaustive.
Above that they are clustered into about 2·√n lists (IVF), and a search visits the lists nearest to
the question: as many as it takes to find `TARGET` of the exact 100 nearest neighbors. That is
measured at the build: `QUERIES` random passages are the questions (their own row does not count),
and the truth is exact search over the vectors before quantization.

The file is memory-mapped. faiss uses as many threads as the process allows.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from math import isqrt
from pathlib import Path
from typing import Any, Protocol

import faiss
import numpy as np
from numpy.typing import NDArray

from jpr.errors import ConfigError, DataError, FormatError
from jpr.io.atomic import explain_damage, explain_write_errors
from jpr.retrieve.faiss_layout import has_layout
from jpr.retrieve.index_manifest import DenseManifest
from jpr.retrieve.rank_fusion import Scored, ranked

EXACT_UP_TO = 1_000_000
TARGET = 0.99
"""Questions lie farther from passages than passages do: their recall is some points lower."""
QUERIES = 256
_K = 100
_PER_LIST = 40  # training vectors per centroid: faiss asks for 39 at least
_SAMPLE = 100_000  # vectors from which the range of each dimension is estimated
_FILE = "vectors.faiss"

_faiss: Any = faiss  # its stubs lack the arguments that faiss adds in Python
Vectors = NDArray[np.float32]
Rows = NDArray[np.int64]


class VectorSource(Protocol):
    """Vectors of passages, in their order, such as `jpr.encode.vectors.StoredVectors`."""

    @property
    def key(self) -> str:
        """Name the encoder and its weights."""

    @property
    def dimension(self) -> int:
        """Return the length of each vector."""

    def __len__(self) -> int: ...

    def blocks(self) -> Iterator[Vectors]:
        """Yield all vectors, some thousands at a time."""


def write_vectors(
    source: VectorSource,
    folder: Path,
    *,
    encoder: str = "",
    nprobe: int | None = None,
    exact_up_to: int = EXACT_UP_TO,
) -> DenseManifest:
    """Index vectors into an empty folder; with `nprobe`, searches visit that many lists.

    Memory holds a byte per value, and the sample from which the centroids are trained.
    """
    lists = 0 if len(source) <= exact_up_to else 2 * isqrt(len(source))
    size = min(len(source), _PER_LIST * lists or _SAMPLE)
    rows = np.sort(np.random.default_rng(0).choice(len(source), size, replace=False))
    sample = _take(source, rows)
    index = _untrained(source.dimension, lists)
    index.train(sample)
    chosen = np.random.default_rng(1).permutation(len(rows))[:QUERIES]
    truth = _ExactNeighbors(rows[chosen], sample[chosen])
    del sample
    for block in source.blocks():
        truth.update(block, int(index.ntotal))
        index.add(block)
    if index.ntotal != len(source):
        raise DataError(f"read {index.ntotal:,} vectors instead of {len(source):,}; encode again")
    _save(index, folder, lists)
    probes, recall = truth.choose_nprobe(index, lists, nprobe)
    kind = "ivf-sq8" if lists else "sq8"
    return DenseManifest(
        encoder, source.key, source.dimension, kind, lists, probes, round(recall, 4)
    )


def extend_vectors(
    source: VectorSource, base: Path, folder: Path, manifest: DenseManifest, rows: int
) -> None:
    """Write the vectors of another index, and more, into an empty folder."""
    index = _load(base, manifest, rows, 0)
    for block in source.blocks():
        _check_finite(block, int(index.ntotal))
        index.add(block)
    _save(index, folder, manifest.lists)


def _take(source: VectorSource, rows: Rows) -> Vectors:
    """Return the vectors in some rows, after a check of all."""
    sample = np.empty((len(rows), source.dimension), np.float32)
    start = taken = 0
    for block in source.blocks():
        _check_finite(block, start)
        until = int(np.searchsorted(rows, start + len(block)))
        sample[taken:until] = block[rows[taken:until] - start]
        start, taken = start + len(block), until
    return sample[:taken]


def _check_finite(block: Vectors, start: int) -> None:
    if not np.isfinite(block).all():
        row = start + int(np.flatnonzero(~np.isfinite(block).all(axis=1))[0])
        raise DataError(f"the vector of passage {row} is not finite; encode it again")


def _untrained(dimension: int, lists: int) -> Any:  # noqa: ANN401  faiss has no type for both
    kind = f"IVF{lists},SQ8" if lists else "SQ8"
    index = _faiss.index_factory(dimension, kind, faiss.METRIC_INNER_PRODUCT)
    if lists:
        index.cp.spherical = True  # an inner product has no other meaningful mean
        index.cp.niter = 10
        index.cp.min_points_per_centroid = 1  # or faiss writes to the terminal
        index.cp.max_points_per_centroid = 10 * _PER_LIST
    return index


class _ExactNeighbors:
    """The exact nearest neighbors of some vectors, updated block by block."""

    def __init__(self, rows: Rows, queries: Vectors) -> None:
        self._own, self._queries = rows[:, None], queries
        self._scores = np.empty((len(rows), 0), np.float32)
        self._rows = np.empty((len(rows), 0), np.int64)

    def update(self, block: Vectors, start: int) -> None:
        k = min(_K + 1, len(block))
        scores, rows = faiss.knn(self._queries, block, k, metric=faiss.METRIC_INNER_PRODUCT)
        scores = np.concatenate([self._scores, scores], axis=1)
        rows = np.concatenate([self._rows, rows + start], axis=1)
        best = np.argsort(-scores, axis=1, kind="stable")[:, : _K + 1]
        self._scores = np.take_along_axis(scores, best, axis=1)
        self._rows = np.take_along_axis(rows, best, axis=1)

    def _recall(self, index: Any, parameters: Any) -> float:  # noqa: ANN401  faiss's own
        _, found = index.search(self._queries, self._rows.shape[1], params=parameters)
        expected = self._rows != self._own
        hits = expected & (self._rows[:, :, None] == found[:, None, :]).any(axis=2)
        return float(hits.sum() / expected.sum()) if expected.any() else 1.0

    def choose_nprobe(self, index: Any, lists: int, fixed: int | None) -> tuple[int, float]:  # noqa: ANN401
        """Return how many lists to visit, and the recall of that."""
        if not lists:
            return 0, self._recall(index, None)
        nprobe = 1 if fixed is None else max(1, min(fixed, lists))
        while True:
            recall = self._recall(index, _faiss.SearchParametersIVF(nprobe=nprobe))
            if fixed is not None or recall >= TARGET or nprobe == lists:
                return nprobe, recall
            nprobe = min(lists, nprobe + 1 + nprobe // 4)


def _save(index: Any, folder: Path, lists: int) -> None:  # noqa: ANN401  faiss's own
    with explain_write_errors(folder, RuntimeError):
        faiss.write_index(index, str(folder / _FILE))
    if not has_layout(folder / _FILE, index.d, index.ntotal, lists):
        version = f"faiss-cpu {faiss.__version__}"
        raise ConfigError(f"{version} writes another layout than is known; install an older one")


def _load(folder: Path, manifest: DenseManifest, rows: int, flags: int) -> Any:  # noqa: ANN401
    with _damage(folder):
        shape = manifest.dimension, rows, manifest.lists
        if manifest.nprobe > manifest.lists or not has_layout(folder / _FILE, *shape):
            raise FormatError(folder, 0, f"{_FILE} does not match its manifest; build it again")
        return faiss.read_index(str(folder / _FILE), flags)


def _damage(folder: Path) -> AbstractContextManager[None]:
    problem, remedy = "the dense index is damaged", "see jpr doctor INDEX"
    return explain_damage(folder, problem, remedy, OSError, RuntimeError)


class DenseSearcher:
    """An open dense index; threads may share it."""

    def __init__(self, folder: Path, manifest: DenseManifest, rows: int) -> None:
        self._folder, self.manifest = folder, manifest
        self._index = _load(folder, manifest, rows, faiss.IO_FLAG_MMAP_IFC)

    def __len__(self) -> int:
        return int(self._index.ntotal)

    def search(self, vectors: Vectors, k: int, rows: Rows | None = None) -> list[Scored]:
        """Return (row, score) of the k best for each vector, of `rows` if given; ties by row."""
        if vectors.shape[1:] != (self.manifest.dimension,):
            problem = f"do not fit an index of {self.manifest.dimension} dimensions"
            raise ConfigError(f"vectors of shape {vectors.shape} {problem}")
        k = min(k, len(self) if rows is None else len(rows))
        if k < 1 or not len(vectors):
            return [[] for _ in vectors]
        with _damage(self._folder):
            scores, found = self._index.search(vectors, k, params=self._parameters(rows))
        return [
            ranked((row, score) for row, score in zip(at, of, strict=True) if row >= 0)
            for at, of in zip(found.tolist(), scores.tolist(), strict=True)
        ]

    def _parameters(self, rows: Rows | None) -> Any:  # noqa: ANN401  faiss's own
        selector = None
        lists, nprobe = self.manifest.lists, self.manifest.nprobe
        if rows is not None:
            accepted = np.zeros(len(self), np.bool_)
            accepted[rows] = True
            selector = _faiss.IDSelectorBitmap(np.packbits(accepted, bitorder="little"))
            # the fewer rows are accepted, the farther away they lie
            nprobe = min(lists, nprobe * len(self) // max(1, len(rows)))
        if not lists:
            return _faiss.SearchParameters(sel=selector) if selector else None
        return _faiss.SearchParametersIVF(nprobe=nprobe, sel=selector)
