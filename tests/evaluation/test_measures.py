import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jpr.coverage import Coverage
from jpr.errors import ConfigError
from jpr.evaluation.measures import (
    ERR_IA,
    MEASURES,
    JudgedRun,
    Measure,
    MRecall,
    MRecall_superset,
    Recall,
    StRecall,
    alpha_nDCG,
    parse_measure,
)
from tests.strategies import Covers, coverage_of, coverages

EVERY = [Recall, MRecall, MRecall_superset, StRecall, alpha_nDCG(0.9), alpha_nDCG(0.5), ERR_IA]


def value(measure: Measure, n_answers: int, ranking: list[set[int]]) -> float:
    """The measure of one ranking whose pool is itself."""
    run = Coverage.of_lists([n_answers], [ranking])
    return float(measure.of(JudgedRun(run, run))[0])


@pytest.mark.parametrize(
    ("n_answers", "ranking", "k", "success"),
    [
        (1, [set(), {0}], 1, 0),
        (1, [set(), {0}], 2, 1),
        (2, [{0}, {0}, {1}], 2, 0),  # the same answer twice is one answer
        (2, [{0}, {0}, {1}], 3, 1),
        (3, [{0, 1, 2}], 1, 1),  # one passage may hold them all
        (5, [{0}, {4}], 2, 1),  # more answers than passages: k of them are enough
        (5, [{0}, {0}], 2, 0),
        (2, [{0}], 5, 0),  # a short ranking gets no credit for what it lacks
        (2, [], 5, 0),
    ],
)
def test_mrecall_wants_all_answers_or_k_of_them(
    n_answers: int, ranking: list[set[int]], k: int, success: float
) -> None:
    assert value(MRecall @ k, n_answers, ranking) == success


def test_mrecall_at_5_may_exceed_mrecall_at_10() -> None:
    ranking = [{0}, {1}, {2}, {3}, {4}, *[set[int]() for _ in range(5)]]  # 6 answers, 5 found
    assert value(MRecall @ 5, 6, ranking) == 1
    assert value(MRecall @ 10, 6, ranking) == 0


def test_the_variants_differ_where_answers_outnumber_passages() -> None:
    ranking = [{0}, {1}]
    assert value(MRecall @ 2, 3, ranking) == 1
    assert value(MRecall_superset @ 2, 3, ranking) == 0
    assert value(StRecall @ 2, 3, ranking) == pytest.approx(2 / 3)
    assert value(Recall @ 2, 3, ranking) == 1


def test_alpha_ndcg_by_hand() -> None:
    # Found: answer 0, answer 0 again, answer 1. Ideal: 0, 1, then 0 again.
    found = 1 + 0.1 / math.log2(3) + 1 / math.log2(4)
    ideal = 1 + 1 / math.log2(3) + 0.1 / math.log2(4)
    assert value(alpha_nDCG(0.9) @ 3, 2, [{0}, {0}, {1}]) == pytest.approx(found / ideal)


def test_the_ideal_of_alpha_ndcg_may_use_the_pool() -> None:
    run = Coverage.of_lists([2], [[{0}]])
    pool = Coverage.of_lists([2], [[{0}, {0, 1}]])
    assert (alpha_nDCG(0.9) @ 1).of(JudgedRun(run, pool)).tolist() == [0.5]


def test_err_ia_by_hand() -> None:
    # One of two answers at rank 2: gain 1, discount 1/2; at best 2 (1 + 0.5/2).
    assert value(ERR_IA @ 2, 2, [set(), {1}]) == pytest.approx(0.5 / 2.5)


def test_nothing_found_and_nothing_to_find_score_zero() -> None:
    for measure in EVERY:
        assert value(measure @ 3, 2, [set(), set()]) == 0
        assert value(measure @ 3, 0, [set()]) == 0


@given(coverages(), st.sampled_from(EVERY), st.integers(1, 8))
def test_values_lie_between_0_and_1(
    case: tuple[list[int], Covers], measure: Measure, k: int
) -> None:
    run = coverage_of(case)
    values = (measure @ k).of(JudgedRun(run, run))
    assert values.shape == (len(case[0]),)
    # The greedy ideal of α-nDCG is within 1 - 1/e of the best: a run may just beat it.
    assert ((values >= 0) & (values <= (1.6 if measure.name == "alpha_nDCG" else 1))).all()


@given(coverages(), st.sampled_from(EVERY), st.integers(1, 5), st.randoms(use_true_random=False))
def test_what_stands_after_k_changes_nothing(
    case: tuple[list[int], Covers], measure: Measure, k: int, chance: random.Random
) -> None:
    n_answers, covers = case
    pool = coverage_of(case)
    mixed = [ranking[:k] + chance.sample(ranking[k:], len(ranking[k:])) for ranking in covers]
    before = (measure @ k).of(JudgedRun(pool, pool))
    after = (measure @ k).of(JudgedRun(Coverage.of_lists(n_answers, mixed), pool))
    np.testing.assert_allclose(before, after)


@given(coverages(), st.integers(1, 8))
def test_one_more_passage_never_lowers_subtopic_recall(
    case: tuple[list[int], Covers], k: int
) -> None:
    run = coverage_of(case)
    fewer, more = (
        (StRecall @ k).of(JudgedRun(run, run)),
        (StRecall @ (k + 1)).of(JudgedRun(run, run)),
    )
    assert (more >= fewer).all()


@given(coverages(), st.integers(1, 8))
def test_the_strict_superset_never_exceeds_mrecall(case: tuple[list[int], Covers], k: int) -> None:
    judged = JudgedRun(coverage_of(case), coverage_of(case))
    assert ((MRecall_superset @ k).of(judged) <= (MRecall @ k).of(judged)).all()
    assert ((MRecall @ k).of(judged) <= (Recall @ k).of(judged)).all()


@pytest.mark.parametrize("measure", [*(m @ 5 for m in EVERY), MRecall @ 10])
def test_a_measure_is_read_as_it_is_written(measure: Measure) -> None:
    assert parse_measure(repr(measure)) == measure


def test_the_long_spelling_of_alpha_is_read_too() -> None:
    assert parse_measure("alpha_nDCG(alpha=0.9) @ 10") == alpha_nDCG(0.9) @ 10


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("MRecal@5", "did you mean MRecall"),
        ("nonsense@5", "known: MRecall"),
        ("MRecall", "write for example MRecall@5"),
        ("MRecall@0", "k must be a whole number from 1"),
        ("MRecall(0.5)@5", "takes no α"),
        ("alpha_nDCG@5", "needs its α"),
        ("alpha_nDCG(1.5)@5", "between 0 and 1"),
        ("alpha_nDCG(0.5.5)@5", "is not a measure"),
    ],
)
def test_a_measure_that_does_not_exist_is_explained(text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        parse_measure(text)


def test_names_are_unique_and_complete() -> None:
    assert {measure.name for measure in EVERY} | {"MRecall_clusters"} == set(MEASURES)
