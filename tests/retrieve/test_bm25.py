import math
from collections.abc import Iterable
from pathlib import Path

import pytest

from jpr.errors import FormatError
from jpr.retrieve.bm25 import STOP_WORDS, Bm25Searcher, Bm25Writer
from jpr.types import Passage

TEXTS = [
    "the cat sat on the mat",
    "a dog chased the cat across the garden",
    "dogs bark loudly dogs bark often",
    "nothing to see",
]


def write_bm25(passages: Iterable[Passage], folder: Path) -> None:
    writer = Bm25Writer(folder)
    for row, passage in enumerate(passages):
        writer.add(row, passage)
    writer.close()


@pytest.fixture
def index(tmp_path: Path) -> Bm25Searcher:
    write_bm25((Passage(str(i), "", text) for i, text in enumerate(TEXTS)), tmp_path)
    return Bm25Searcher(tmp_path)


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


def test_scores_are_those_of_the_formula(index: Bm25Searcher) -> None:
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


def test_best_first_and_no_more_than_asked(index: Bm25Searcher) -> None:
    assert [row for row, _ in index.search("dogs that bark", 10)] == [2, 1]
    assert len(index.search("cat", 1)) == 1
    assert index.search("cat", 0) == []
    assert len(index) == 4


def test_words_agree_whatever_their_case_form_or_accent(tmp_path: Path) -> None:
    write_bm25([Passage("0", "Café", "The Runners")], tmp_path)
    found = Bm25Searcher(tmp_path)
    assert found.search("cafe", 5) and found.search("RUNNER", 5)  # noqa: PT018  both by one index


def test_titles_are_searched(tmp_path: Path) -> None:
    write_bm25([Passage("0", "Roseanne", "a show"), Passage("1", "Other", "a show")], tmp_path)
    assert [row for row, _ in Bm25Searcher(tmp_path).search("roseanne", 5)] == [0]


def test_question_words_find_nothing(index: Bm25Searcher) -> None:
    assert index.search(" ".join(STOP_WORDS), 10) == []
    assert index.search("", 10) == index.search("?!", 10) == []


def test_equal_passages_come_in_the_order_of_the_corpus(tmp_path: Path) -> None:
    write_bm25((Passage(str(i), "", "same words") for i in range(20)), tmp_path)
    assert [row for row, _ in Bm25Searcher(tmp_path).search("words", 20)] == list(range(20))


def test_half_a_character_is_no_obstacle(tmp_path: Path) -> None:
    write_bm25([Passage("0", "", "broken \ud800 word")], tmp_path)
    assert Bm25Searcher(tmp_path).search("a \udc00 word", 5)


def changed(
    base: Path, folder: Path, added: list[tuple[int, str]], removed: list[int]
) -> Bm25Searcher:
    """An index made from another."""
    folder.mkdir()
    writer = Bm25Writer(folder, base)
    for row, text in added:
        writer.add(row, Passage(str(row), "", text))
    for row in removed:
        writer.remove(row)
    writer.close()
    return Bm25Searcher(folder)


def test_added_and_removed_again_is_as_if_never_added(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    write_bm25((Passage(str(i), "", text) for i, text in enumerate(TEXTS)), tmp_path / "old")
    files = {path.name: path.read_bytes() for path in (tmp_path / "old").iterdir()}
    old = Bm25Searcher(tmp_path / "old")
    more = changed(tmp_path / "old", tmp_path / "more", [(4, "cats and dogs"), (5, "a cat")], [])
    assert {row for row, _ in more.search("cat", 9)} == {0, 1, 4, 5}
    less = changed(tmp_path / "more", tmp_path / "less", [], [4, 5])
    for text in ("cat", "dog bark", "garden mat cat"):
        assert less.search(text, 9) == old.search(text, 9)  # scores too: a whole segment went
    assert {path.name: path.read_bytes() for path in (tmp_path / "old").iterdir()} == files


def test_added_later_scores_as_if_there_from_the_start(tmp_path: Path) -> None:
    for name, texts in (("first", TEXTS[:2]), ("all", TEXTS)):
        (tmp_path / name).mkdir()
        write_bm25((Passage(str(i), "", text) for i, text in enumerate(texts)), tmp_path / name)
    later = changed(tmp_path / "first", tmp_path / "both", [*enumerate(TEXTS)][2:], [])
    for text in ("cat", "dog bark", "garden mat cat"):
        assert later.search(text, 9) == Bm25Searcher(tmp_path / "all").search(text, 9)


def test_a_removed_passage_is_not_found_but_counts_until_its_segment_is_written_again(
    tmp_path: Path,
) -> None:
    (tmp_path / "old").mkdir()
    write_bm25((Passage(str(i), "", text) for i, text in enumerate(TEXTS)), tmp_path / "old")
    less = changed(tmp_path / "old", tmp_path / "less", [], [0])
    assert less.search("cat", 9) == [
        hit for hit in Bm25Searcher(tmp_path / "old").search("cat", 9) if hit[0]
    ]
    assert len(less) == 3


def test_what_is_no_index_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="damaged"):
        Bm25Searcher(tmp_path)
