import random
import struct
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest
from numpy.typing import NDArray

from jpr.errors import ConfigError, DataError, FormatError
from jpr.retrieve.dense import TARGET, DenseSearcher, extend_vectors, write_vectors
from jpr.retrieve.index_manifest import DenseManifest

Vectors = NDArray[np.float32]
DIMENSION = 16


def clustered(n: int, seed: int = 0) -> Vectors:
    """Unit vectors around some centres."""
    chance = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(30, DIMENSION))
    vectors = centres[chance.integers(30, size=n)] + 0.5 * chance.normal(size=(n, DIMENSION))
    unit: Vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    return unit


@dataclass
class Given:
    """Vectors at hand, in blocks."""

    vectors: Vectors
    key: str = "toy"
    dimension: int = DIMENSION
    size: int = 700

    def __len__(self) -> int:
        return len(self.vectors)

    def blocks(self) -> Iterator[Vectors]:
        for start in range(0, len(self), self.size):
            yield self.vectors[start : start + self.size]


@pytest.fixture(params=["sq8", "ivf-sq8"])
def written(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, DenseManifest]:
    exact_up_to = 5000 if request.param == "sq8" else 1000
    contents = write_vectors(Given(clustered(3000)), tmp_path, exact_up_to=exact_up_to)
    assert contents.kind == request.param
    return tmp_path, contents


def exact(vectors: Vectors, questions: Vectors, k: int) -> list[set[int]]:
    return [set(row) for row in np.argsort(-(questions @ vectors.T), axis=1)[:, :k].tolist()]


def test_the_recall_is_what_the_manifest_says(written: tuple[Path, DenseManifest]) -> None:
    folder, contents = written
    questions = clustered(200, seed=5)
    found = DenseSearcher(folder, contents, 3000).search(questions, 100)
    true = exact(clustered(3000), questions, 100)
    hits = [len(want & {row for row, _ in got}) for want, got in zip(true, found, strict=True)]
    assert contents.recall >= TARGET
    assert np.mean(hits) / 100 == pytest.approx(contents.recall, abs=0.03)


def test_scores_are_inner_products_best_first(written: tuple[Path, DenseManifest]) -> None:
    folder, contents = written
    vectors, questions = clustered(3000), clustered(5, seed=5)
    for question, hits in zip(
        questions, DenseSearcher(folder, contents, 3000).search(questions, 20), strict=True
    ):
        rows, scores = zip(*hits, strict=True)
        assert list(scores) == sorted(scores, reverse=True)
        assert np.allclose(vectors[list(rows)] @ question, scores, atol=0.02)


def test_a_filter_finds_the_best_of_what_it_accepts(written: tuple[Path, DenseManifest]) -> None:
    folder, contents = written
    vectors, questions = clustered(3000), clustered(20, seed=5)
    dense = DenseSearcher(folder, contents, 3000)
    for rows in (np.arange(0, 3000, 3), np.arange(17), np.array([5])):
        found = dense.search(questions, 10, rows)
        true = exact(vectors[rows], questions, 10)
        got = [{row for row, _ in hits} for hits in found]
        assert all(each <= set(rows.tolist()) for each in got)
        assert all(len(each) == min(10, len(rows)) for each in got)
        near = [set(rows[sorted(want)].tolist()) for want in true]
        agree = [len(a & b) / len(a) for a, b in zip(near, got, strict=True)]
        assert np.mean(agree) > 0.9
    assert dense.search(questions[:2], 10, np.empty(0, np.int64)) == [[], []]


def test_no_more_than_there_are_and_nothing_for_nothing(
    written: tuple[Path, DenseManifest],
) -> None:
    dense = DenseSearcher(*written, 3000)
    assert dense.search(clustered(1), 0) == [[]]
    assert dense.search(np.empty((0, DIMENSION), np.float32), 5) == []
    assert len(dense.search(clustered(1), 10, np.arange(3))[0]) == 3
    with pytest.raises(ConfigError, match="16 dimensions"):
        dense.search(np.zeros((1, 3), np.float32), 5)


def test_vectors_added_later_are_found_in_their_rows(
    written: tuple[Path, DenseManifest], tmp_path: Path
) -> None:
    folder, contents = written
    (tmp_path / "more").mkdir()
    more = clustered(50, seed=8)
    extend_vectors(Given(more), folder, tmp_path / "more", contents, 3000)
    dense = DenseSearcher(tmp_path / "more", contents, 3050)
    assert len(dense) == 3050
    assert [hits[0][0] for hits in dense.search(more, 1)] == list(range(3000, 3050))


def test_a_number_of_lists_can_be_asked_for(tmp_path: Path) -> None:
    contents = write_vectors(Given(clustered(3000)), tmp_path, exact_up_to=1000, nprobe=2)
    assert (contents.nprobe, contents.lists) == (2, 108)
    everything = write_vectors(Given(clustered(3000)), tmp_path, exact_up_to=1000, nprobe=10**6)
    assert everything.nprobe == 108
    assert everything.recall > contents.recall


def test_a_handful_of_vectors_is_enough(tmp_path: Path) -> None:
    contents = write_vectors(Given(clustered(2)), tmp_path)
    assert contents.recall == pytest.approx(1)
    assert len(DenseSearcher(tmp_path, contents, 2).search(clustered(1), 100)[0]) == 2


def test_what_is_no_number_is_refused_with_its_row(tmp_path: Path) -> None:
    vectors = clustered(2000)
    vectors[1234, 3] = np.nan
    with pytest.raises(DataError, match="passage 1234"):
        write_vectors(Given(vectors), tmp_path)


def test_damaged_vectors_are_refused(written: tuple[Path, DenseManifest]) -> None:
    folder, contents = written
    wrong: list[dict[str, Any]] = [
        {"dimension": 17},
        {"dimension": 0},
        {"dimension": -(2**70)},
        {"lists": contents.lists + 1},
        {"lists": 2**40},
        {"lists": -1},
        {"nprobe": contents.lists + 1},
        {"nprobe": 2**70},
    ]
    for change in wrong:
        with pytest.raises(FormatError, match="manifest"):
            DenseSearcher(folder, replace(contents, **change), 3000)
    for rows in (0, 2999, 2**70, -1):
        with pytest.raises(FormatError, match="manifest"):
            DenseSearcher(folder, contents, rows)


def test_faiss_gets_no_file_of_another_layout(written: tuple[Path, DenseManifest]) -> None:
    """It would read beyond the end of a short one, and allocate what a long number says."""
    folder, contents = written
    file, chance = folder / "vectors.faiss", random.Random(0)
    whole, results = file.read_bytes(), Counter[str]()
    sizes = len(whole) - 3000 * (DIMENSION + 8) - 8 * contents.lists if contents.lists else 100
    starts = [at + number for at in (0, sizes) for number in range(100)]
    for at in (*starts, *(chance.randrange(len(whole)) for _ in range(200))):
        number = chance.choice([0, 1, 2**31, 2**40, 2**63, 2**64 - 1])
        changed = bytearray(whole)
        changed[at : at + chance.choice([1, 8])] = struct.pack("<Q", number)[
            : chance.choice([1, 8])
        ]
        file.unlink()  # it may still be mapped
        file.write_bytes(whole[:at] if chance.random() < 0.3 else changed)
        try:
            (hits,) = DenseSearcher(folder, contents, 3000).search(clustered(1), 10)
            results["found"] += 1
            assert len(hits) <= 10
        except FormatError:
            results["error"] += 1
    assert min(results["error"], results["found"]) > 50


def test_lists_that_are_mostly_empty_are_written_in_another_way(tmp_path: Path) -> None:
    vectors = np.repeat(clustered(20), 110, axis=0)
    contents = write_vectors(Given(vectors), tmp_path, exact_up_to=1000)
    assert b"sprs" in (tmp_path / "vectors.faiss").read_bytes()
    dense = DenseSearcher(tmp_path, contents, 2200)
    assert len(dense.search(clustered(1), 10)[0]) == 10


def test_threads_share_vectors_and_faiss_keeps_its_number_of_threads(
    written: tuple[Path, DenseManifest],
) -> None:
    before = faiss.omp_get_max_threads()
    dense, questions = DenseSearcher(*written, 3000), clustered(40, seed=5)
    expected = dense.search(questions, 10)
    wrong: list[int] = []

    def search() -> None:
        wrong.extend(
            i for i in range(40) if dense.search(questions[i : i + 1], 10)[0] != expected[i]
        )

    threads = [threading.Thread(target=search) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert faiss.omp_get_max_threads() == before
