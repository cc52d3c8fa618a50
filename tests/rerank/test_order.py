from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jpr.errors import ConfigError
from jpr.rerank.order import FirstStageOrder, ranked
from jpr.stages import Reranker
from jpr.types import Ranking
from tests.rerank.sample import QUESTION, candidates, check_choice, ids

GIVEN = candidates("red", "blue", "green")


@pytest.mark.parametrize(("k", "expected"), [(0, []), (2, ["p0", "p1"]), (9, ["p0", "p1", "p2"])])
def test_the_first_stage_keeps_its_order_and_its_scores(k: int, expected: list[str]) -> None:
    reranker: Reranker = FirstStageOrder()
    ranking = reranker.rank(QUESTION, GIVEN, k)
    assert ids(ranking) == expected
    assert list(ranking.hits) == GIVEN[:k]
    assert list(reranker.rank_many([Ranking(QUESTION, tuple(GIVEN))] * 2, k)) == [ranking] * 2


def test_less_than_no_passage_is_refused() -> None:
    with pytest.raises(ConfigError, match="k = -1"):
        FirstStageOrder().rank(QUESTION, GIVEN, -1)


@given(st.lists(st.floats(-1e9, 1e9), max_size=3))
def test_scores_fall_and_differ_from_what_was_given_only_where_they_must(
    scores: list[float],
) -> None:
    ranking = ranked(QUESTION, GIVEN, enumerate(scores))
    check_choice(ranking, QUESTION, GIVEN, len(scores))
    before = inf
    for hit, score in zip(ranking.hits, scores, strict=True):
        assert hit.score == pytest.approx(min(score, before), rel=1e-12, abs=1e-300)
        before = hit.score
