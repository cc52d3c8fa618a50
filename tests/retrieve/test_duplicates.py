import time
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jpr.errors import ConfigError
from jpr.retrieve.duplicates import DistinctRetriever, distinct
from jpr.types import Hit, Passage, Question, Ranking

WORDS = [chr(ord("a") + i) * (1 + i % 3) for i in range(8)]
TEXTS = st.lists(st.lists(st.sampled_from(WORDS), max_size=10).map(" ".join), max_size=12)
THRESHOLDS = st.sampled_from([0.1, 0.34, 0.5, 2 / 3, 0.75, 0.8, 1.0])


def hits(texts: Iterable[str]) -> list[Hit]:
    return [Hit(Passage(str(i), "", text), -float(i)) for i, text in enumerate(texts)]


def kept(texts: Iterable[str], threshold: float) -> list[int]:
    return [int(hit.passage.id) for hit in distinct(hits(texts), threshold)]


def jaccard(a: str, b: str) -> float:
    mine, other = set(a.casefold().split()), set(b.casefold().split())
    return len(mine & other) / len(mine | other) if mine | other else 0.0


def test_the_share_of_common_words_by_hand() -> None:
    texts = ["one two three four", "one two three five"]  # 3 of 5 words are common
    assert kept(texts, 0.6) == [0]
    assert kept(texts, 0.61) == [0, 1]


def test_case_order_and_repetition_do_not_count() -> None:
    assert kept(["The cat sat", "sat sat THE  cat\n"], 1.0) == [0]
    assert kept(["The cat sat", "The cat sat."], 1.0) == [0, 1]  # "sat." is another word


def test_passages_without_text_are_unlike() -> None:
    assert kept(["", "", " "], 0.1) == [0, 1, 2]


def test_what_resembles_only_a_removed_passage_stays() -> None:
    chain = ["a b c d", "b c d e", "c d e f"]  # neighbours share 3 of 5, the ends 2 of 6
    assert kept(chain, 0.5) == [0, 2]


@given(texts=TEXTS, threshold=THRESHOLDS)
def test_it_is_the_rule_applied_pair_by_pair(texts: list[str], threshold: float) -> None:
    expected: list[int] = []
    for i, text in enumerate(texts):
        if not any(jaccard(text, texts[other]) >= threshold for other in expected):
            expected.append(i)
    assert kept(texts, threshold) == expected


@given(texts=TEXTS, threshold=THRESHOLDS)
def test_a_second_time_nothing_goes(texts: list[str], threshold: float) -> None:
    once = list(distinct(hits(texts), threshold))
    assert list(distinct(once, threshold)) == once


@given(texts=TEXTS)
def test_a_text_that_comes_again_goes(texts: list[str]) -> None:
    doubled = [text for text in texts for _ in range(2)]
    assert {i // 2 for i in kept(doubled, 1.0) if i % 2} <= {
        i for i, text in enumerate(texts) if not text.strip()
    }


@pytest.mark.parametrize("threshold", [0.0, -1.0, 1.1, float("nan")])
def test_a_threshold_without_meaning_is_refused(threshold: float) -> None:
    with pytest.raises(ConfigError, match=str(threshold)):
        distinct([], threshold)


def test_three_hundred_passages_take_milliseconds() -> None:
    vocabulary = ["x" * (1 + i % 9) + str(i) for i in range(900)]
    texts = [" ".join(vocabulary[(i * 37 + j * j) % 900] for j in range(100)) for i in range(300)]
    found = hits(texts)
    start = time.process_time()
    list(distinct(found, 0.8))
    assert time.process_time() - start < 0.5  # about 0.06; pair by pair it is 1.5


class FakeRetriever:
    """A retriever whose rankings are given."""

    def __init__(self, texts: list[str]) -> None:
        self.texts, self.asked = texts, list[int]()

    def retrieve(self, question: Question, k: int) -> Ranking:
        self.asked.append(k)
        return Ranking(question, tuple(hits(self.texts)[:k]))

    def retrieve_many(self, questions: Iterable[Question], k: int) -> Iterator[Ranking]:
        return (self.retrieve(question, k) for question in questions)


def found_ids(inner: FakeRetriever, k: int) -> list[str]:
    question = Question("q", "?")
    ranking = DistinctRetriever(inner).retrieve(question, k)
    assert list(DistinctRetriever(inner).retrieve_many([question], k)) == [ranking]
    return [hit.passage.id for hit in ranking.hits]


def test_what_falls_away_is_made_up_for() -> None:
    texts = ["same text"] * 30 + ["second"] * 30 + ["third"]
    assert found_ids(FakeRetriever(texts), 3) == ["0", "30", "60"]


def test_fewer_where_the_corpus_has_no_more() -> None:
    inner = FakeRetriever(["same text"] * 9)
    assert found_ids(inner, 5) == ["0"]
    assert max(inner.asked) == 12


def test_no_more_than_asked() -> None:
    inner = FakeRetriever([f"text {i}" for i in range(50)])
    assert found_ids(inner, 4) == ["0", "1", "2", "3"]
    assert max(inner.asked) == 5
