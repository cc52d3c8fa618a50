import math
from collections.abc import Iterable
from pathlib import Path

import pytest

from jpr.errors import FormatError
from jpr.retrieve.bm25 import STOP_WORDS, Bm25, indexed
from jpr.types import Passage

TEXTS = [
    "the cat sat on the mat",
    "a dog chased the cat across the garden",
    "dogs bark loudly dogs bark often",
    "nothing to see",
]


def write_bm25(passages: Iterable[Passage], folder: Path) -> None:
    for _ in indexed(passages, folder):
        pass


@pytest.fixture
def index(tmp_path: Path) -> Bm25:
    write_bm25((Passage(str(i), "", text) for i, text in enumerate(TEXTS)), tmp_path)
    return Bm25(tmp_path)


def reference(query: list[str], documents: list[list[str]], k1: float, b: float) -> list[float]:
    """BM25 in ten lines, on words that are stems already."""
    mean = sum(map(len, documents)) / len(documents)
    scores = []
    for document in documents:
        score = 0.0
        for word in query:
            df = sum(word in other for other in documents)
            idf = math.log(1 + (len(documents) - df + 0.5) / (df + 0.5))
            tf = document.count(word)
            norm = k1 * (1 - b + b * len(document) / mean)
            score += idf * tf * (k1 + 1) / (tf + norm)
        scores.append(score)
    return scores


def test_scores_are_those_of_the_formula(index: Bm25) -> None:
    documents = [
        ["cat", "sat", "mat"],
        ["dog", "chase", "cat", "across", "garden"],
        ["dog", "bark", "loud", "dog", "bark", "often"],
        ["noth", "see"],
    ]
    expected = reference(["dog", "cat"], documents, k1=1.2, b=0.75)
    found = dict(index.search("Dogs? cat!", 10))
    assert set(found) == {0, 1, 2}
    for row, score in found.items():
        assert score == pytest.approx(expected[row], rel=1e-5)


def test_best_first_and_no_more_than_asked(index: Bm25) -> None:
    assert [row for row, _ in index.search("dogs that bark", 10)] == [2, 1]
    assert len(index.search("cat", 1)) == 1
    assert index.search("cat", 0) == []
    assert len(index) == 4


def test_words_agree_whatever_their_case_form_or_accent(tmp_path: Path) -> None:
    write_bm25([Passage("0", "Café", "The Runners")], tmp_path)
    found = Bm25(tmp_path)
    assert found.search("cafe", 5) and found.search("RUNNER", 5)  # noqa: PT018  both by one index


def test_titles_are_searched(tmp_path: Path) -> None:
    write_bm25([Passage("0", "Roseanne", "a show"), Passage("1", "Other", "a show")], tmp_path)
    assert [row for row, _ in Bm25(tmp_path).search("roseanne", 5)] == [0]


def test_question_words_find_nothing(index: Bm25) -> None:
    assert index.search(" ".join(STOP_WORDS), 10) == []
    assert index.search("", 10) == index.search("?!", 10) == []


def test_equal_passages_come_in_the_order_of_the_corpus(tmp_path: Path) -> None:
    write_bm25((Passage(str(i), "", "same words") for i in range(20)), tmp_path)
    assert [row for row, _ in Bm25(tmp_path).search("words", 20)] == list(range(20))


def test_what_is_no_index_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="is no whole BM25 index"):
        Bm25(tmp_path)
