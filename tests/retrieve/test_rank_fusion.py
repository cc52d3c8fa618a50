import math
from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jpr.errors import ConfigError
from jpr.retrieve.rank_fusion import (
    Fusion,
    ReciprocalRanks,
    Scored,
    ScoreMix,
    strongest,
)

SCORES = st.floats(-100, 100).map(lambda score: round(score, 3))
RANKINGS = st.dictionaries(st.integers(0, 30), SCORES, max_size=12).map(
    lambda found: sorted(found.items(), key=lambda hit: (-hit[1], hit[0]))
)
WEIGHTS = st.floats(0.1, 10)
WEIGHTED = st.lists(st.tuples(RANKINGS, WEIGHTS), min_size=1, max_size=4)
KINDS = pytest.mark.parametrize("kind", [ReciprocalRanks, ScoreMix])
Kind = type[ReciprocalRanks] | type[ScoreMix]


def keys(fused: Scored) -> list[int]:
    return [key for key, _ in fused]


def fuse(kind: Kind, weighted: Sequence[tuple[Scored, float]]) -> list[tuple[int, float]]:
    fusion: Fusion = kind(tuple(weight for _, weight in weighted))
    return fusion([ranking for ranking, _ in weighted])


def test_reciprocal_ranks_by_hand() -> None:
    words, vectors = [(5, 20.0), (6, 10.0), (7, 1.0)], [(7, 0.9), (5, 0.8)]
    fused = ReciprocalRanks((0.4, 0.6))([words, vectors])
    assert keys(fused) == [5, 7, 6]
    expected = {5: 0.4 / 61 + 0.6 / 62, 6: 0.4 / 62, 7: 0.4 / 63 + 0.6 / 61}
    assert dict(fused) == pytest.approx(expected, abs=1e-15)


def test_the_constant_decides_between_one_first_rank_and_two_middling_ones() -> None:
    lists = [[(1, 9.0), (8, 8.0), (2, 7.0)], [(3, 9.0), (9, 8.0), (2, 7.0)]]
    assert keys(ReciprocalRanks((1.0, 1.0))(lists))[0] == 2  # 2/63 > 1/61
    assert keys(ReciprocalRanks((1.0, 1.0), constant=0)(lists))[0] == 1  # 1/1 > 2/3


def test_scores_by_hand() -> None:
    words, vectors = [(5, 20.0), (6, 15.0), (7, 10.0)], [(7, 0.9), (5, 0.8), (8, 0.7)]
    fused = dict(ScoreMix((0.4, 0.6))([words, vectors]))
    assert fused == pytest.approx({5: 0.4 + 0.3, 6: 0.2, 7: 0.6, 8: 0.0})


def test_scores_of_any_scale_count_the_same() -> None:
    words, vectors = [(5, 20.0), (6, 12.0), (7, 10.0)], [(7, 0.9), (6, 0.8), (5, 0.7)]
    stretched = [(key, 1000 * score - 7) for key, score in words]
    mix = ScoreMix((1.0, 1.0))
    assert dict(mix([stretched, vectors])) == pytest.approx(dict(mix([words, vectors])))


def test_equal_scores_of_a_ranking_all_count_in_full() -> None:
    assert ScoreMix((2.0,))([[(1, 3.0), (2, 3.0)]]) == [(1, 2.0), (2, 2.0)]


@KINDS
def test_of_equal_sums_the_smaller_key_is_first(kind: Kind) -> None:
    assert keys(kind((1.0, 1.0))([[(9, 1.0)], [(3, 1.0)]])) == [3, 9]


@KINDS
@given(weighted=WEIGHTED)
def test_every_key_comes_once_best_first(kind: Kind, weighted: list[tuple[Scored, float]]) -> None:
    fused = fuse(kind, weighted)
    assert sorted(keys(fused)) == sorted({key for ranking, _ in weighted for key, _ in ranking})
    assert fused == sorted(fused, key=lambda hit: (-hit[1], hit[0]))
    assert all(math.isfinite(score) and score >= 0 for _, score in fused)


@KINDS
@given(weighted=WEIGHTED, data=st.data())
def test_the_order_of_the_rankings_changes_nothing(
    kind: Kind, weighted: list[tuple[Scored, float]], data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(weighted))
    assert fuse(kind, shuffled) == fuse(kind, weighted)


@given(ranking=RANKINGS, weight=WEIGHTS)
def test_one_ranking_alone_keeps_its_order(ranking: Scored, weight: float) -> None:
    assert keys(fuse(ReciprocalRanks, [(ranking, weight)])) == keys(ranking)
    assert keys(fuse(ScoreMix, [(ranking, weight)])) == keys(ranking)


@KINDS
@given(weighted=WEIGHTED)
def test_what_all_put_first_is_first(kind: Kind, weighted: list[tuple[Scored, float]]) -> None:
    crowned = [([(-1, 101.0), *ranking], weight) for ranking, weight in weighted]
    assert keys(fuse(kind, crowned))[0] == -1


@given(ranking=RANKINGS, weighted=WEIGHTED, weight=WEIGHTS)
def test_a_ranking_that_comes_twice_counts_as_one_of_twice_the_weight(
    ranking: Scored, weighted: list[tuple[Scored, float]], weight: float
) -> None:
    twice = dict(fuse(ReciprocalRanks, [*weighted, (ranking, weight), (ranking, weight)]))
    assert twice == pytest.approx(dict(fuse(ReciprocalRanks, [*weighted, (ranking, 2 * weight)])))


@KINDS
def test_nothing_found_is_nothing(kind: Kind) -> None:
    assert kind((1.0, 1.0))([[], []]) == []
    assert keys(kind((1.0, 1.0))([[], [(4, 2.0)]])) == [4]


@pytest.mark.parametrize("weights", [(), (0.0, 1.0), (-1.0,), (math.nan,), (math.inf, 1.0)])
@KINDS
def test_weights_must_be_above_zero(kind: Kind, weights: tuple[float, ...]) -> None:
    with pytest.raises(ConfigError, match="weights of rankings"):
        kind(weights)


def test_a_weight_for_each_ranking() -> None:
    with pytest.raises(ConfigError, match=r"3 rankings .* 2 weights"):
        ReciprocalRanks((1.0, 1.0))([[], [], []])
    with pytest.raises(ConfigError, match="constant"):
        ReciprocalRanks((1.0,), constant=-1)


@given(st.lists(RANKINGS, min_size=2, max_size=4), st.randoms())
def test_the_strongest_scores_depend_on_no_order_and_no_repetition(
    rankings: list[Scored], chance: Random
) -> None:
    expected = strongest(rankings)
    again = [*rankings, *rankings, []]
    chance.shuffle(again)
    assert strongest(again) == expected
    assert {key for key, _ in expected} == {key for ranking in rankings for key, _ in ranking}
    firsts = {ranking[0][0] for ranking in rankings if ranking}
    assert all(score == 1 for key, score in expected if key in firsts)


@given(RANKINGS)
def test_a_single_ranking_keeps_its_scores(ranking: Scored) -> None:
    assert strongest([ranking]) == ranking
