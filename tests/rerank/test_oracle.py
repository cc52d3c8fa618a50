from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jpr.errors import DataError
from jpr.rerank.oracle import OracleReranker
from jpr.types import Question, Ranking
from tests.rerank.sample import QUESTION, candidates, check_choice, ids

COLOURS = ("red", "blue", "green", "white", "black")
TEXTS = st.lists(
    st.lists(st.sampled_from([*COLOURS, "grey"]), max_size=3).map(" ".join), max_size=6
)


def test_passages_that_add_answers_come_first_and_the_first_stage_fills_up() -> None:
    given = candidates("nothing", "red", "red again", "blue and green", "neither")
    ranking = OracleReranker().rank(QUESTION, given, 4)
    assert ids(ranking) == ["p3", "p1", "p0", "p2"]
    assert [round(hit.score) for hit in ranking.hits] == [2, 1, 0, 0]


def test_what_is_best_alone_is_left_out_where_others_are_better_together() -> None:
    question = Question("q", "?", tuple((colour,) for colour in (*COLOURS, "grey")))
    given = candidates("red blue green white", "red blue black", "green white grey")
    assert sorted(ids(OracleReranker().rank(question, given, 2))) == ["p1", "p2"]


@given(st.lists(TEXTS, max_size=3), st.integers(0, 5))
def test_no_other_choice_covers_more(lists: list[list[str]], k: int) -> None:
    question = Question("q", "?", tuple((colour,) for colour in COLOURS))
    rankings = [Ranking(question, tuple(candidates(*texts))) for texts in lists]
    for ranking, texts, found in zip(
        rankings, lists, OracleReranker().rank_many(rankings, k), strict=True
    ):
        check_choice(found, question, ranking.hits, k)
        chosen = [hit.passage.text for hit in found.hits]
        most = max(map(covered, combinations(texts, min(k, len(texts)))))
        assert covered(chosen) == most
        # each passage is the one of the rest that adds most
        assert [round(hit.score) for hit in found.hits] == [
            covered(chosen[: i + 1]) - covered(chosen[:i]) for i in range(len(chosen))
        ]


def covered(texts: tuple[str, ...] | list[str]) -> int:
    return len({word for text in texts for word in text.split()} & set(COLOURS))


def test_one_question_or_many_is_the_same() -> None:
    reranker = OracleReranker()
    rankings = [Ranking(QUESTION, tuple(candidates(*["red", "x", "blue"][i:]))) for i in range(3)]
    many = list(reranker.rank_many(iter(rankings * 30), 2))  # more than one batch
    assert many == [reranker.rank(r.question, r.hits, 2) for r in rankings] * 30


def test_an_expression_is_an_answer_too() -> None:
    question = Question("q", "?", regex="gr[ae]y")
    assert ids(OracleReranker().rank(question, candidates("red", "grey"), 1)) == ["p1"]


def test_a_question_without_answers_is_refused() -> None:
    with pytest.raises(DataError, match="question 'x' has no answers"):
        OracleReranker().rank(Question("x", "?"), candidates("red"), 1)
