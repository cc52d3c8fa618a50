import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jpr.errors import ConfigError
from jpr.retrieve.question_mix import QuestionMix
from jpr.retrieve.rank_fusion import Scored, ScoreMix

SCORES = st.floats(0.001, 100).map(lambda score: round(score, 3))
RANKINGS = st.dictionaries(st.integers(0, 60), SCORES, max_size=40).map(
    lambda found: sorted(found.items(), key=lambda hit: (-hit[1], hit[0]))
)
MIX = QuestionMix(passages=5000)
BY_HAND = QuestionMix(
    1000, constant=1.0, lexical_gap=2.0, dense_gap=-10.0, dense_first=-3.0, log_passages=0.0
)


def keys(ranking: Scored) -> list[int]:
    return [key for key, _ in ranking]


def test_the_weight_by_hand() -> None:
    words, vectors = [(1, 20.0), (2, 15.0)], [(3, 0.9), (4, 0.8)]
    z = 1.0 + 2.0 * (5 / 20) - 10.0 * (0.9 - 0.8) - 3.0 * 0.9
    assert BY_HAND.lexical_weight(words, vectors) == pytest.approx(1 / (1 + math.exp(-z)))


def test_the_first_passage_is_compared_with_the_21st() -> None:
    words = [(key, 50.0 - key) for key in range(40)]
    assert MIX.signals(words, [])[1] == pytest.approx(20 / 50)
    assert MIX.signals(words[:10], [])[1] == pytest.approx(9 / 50)


def test_the_shipped_weights_follow_the_list_that_stands_out_and_fall_with_the_corpus() -> None:
    steep, level = [(1, 20.0), (2, 5.0)], [(1, 20.0), (2, 19.0)]
    near, far = [(3, 0.80), (4, 0.79)], [(3, 0.80), (4, 0.60)]
    assert MIX.lexical_weight(steep, near) > MIX.lexical_weight(level, near)
    assert MIX.lexical_weight(steep, near) > MIX.lexical_weight(steep, far)
    sizes = [QuestionMix(n).lexical_weight(steep, near) for n in (1, 1000, 50_000, 300_000, 10**9)]
    assert sizes[0] == sizes[1] > sizes[2] > sizes[3] == sizes[4]


@given(words=RANKINGS, vectors=RANKINGS)
def test_it_is_a_score_mix_of_its_weight(words: Scored, vectors: Scored) -> None:
    if any(len(one) > 1 and one[0][1] == one[-1][1] for one in (words, vectors)):
        return
    weight = MIX.lexical_weight(words, vectors)
    assert 0 < weight < 1
    assert MIX([words, vectors]) == ScoreMix((weight, 1 - weight))([words, vectors])


@given(ranking=RANKINGS)
def test_an_empty_ranking_does_not_matter(ranking: Scored) -> None:
    for fused in (MIX([ranking, []]), MIX([[], ranking])):
        assert keys(fused)[:1] == keys(ranking)[:1]
        assert sorted(keys(fused)) == sorted(keys(ranking))
        assert fused == sorted(fused, key=lambda hit: (-hit[1], hit[0]))


@given(ranking=RANKINGS, others=st.sets(st.integers(0, 60), min_size=2, max_size=20))
def test_a_constant_ranking_does_not_matter(ranking: Scored, others: set[int]) -> None:
    constant = [(key, 7.0) for key in sorted(others)]
    known = set(keys(ranking))
    for alone, fused in (
        (MIX([ranking, []]), MIX([ranking, constant])),
        (MIX([[], ranking]), MIX([constant, ranking])),
    ):
        assert [key for key in keys(fused) if key in known] == keys(alone)
        assert set(keys(fused)) == known | others
        assert all(score == 0 for key, score in fused if key not in known)


@given(words=RANKINGS, vectors=RANKINGS, factor=st.sampled_from([0.25, 2.0, 64.0]))
def test_the_scale_of_lexical_scores_does_not_matter(
    words: Scored, vectors: Scored, factor: float
) -> None:
    scaled = [(key, score * factor) for key, score in words]
    assert keys(MIX([scaled, vectors])) == keys(MIX([words, vectors]))


def test_a_mix_is_of_two_rankings() -> None:
    with pytest.raises(ConfigError, match="3 rankings"):
        MIX([[], [], []])
