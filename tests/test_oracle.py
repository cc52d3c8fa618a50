from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from jpr.coverage import Coverage
from jpr.evaluation.measures import JudgedRun, MRecall, StRecall, alpha_nDCG
from jpr.oracle import best_cover, found, greedy, max_cover
from tests.strategies import Covers, coverage_of, coverages

PASSAGES = st.lists(st.frozensets(st.integers(0, 7), max_size=4), max_size=8)


def brute_force(covers: list[frozenset[int]], k: int) -> int:
    choices = combinations(covers, min(k, len(covers)))
    return max(len(frozenset().union(*choice)) for choice in choices)


def n_covered(covers: list[frozenset[int]], passages: list[int]) -> int:
    return len(frozenset().union(*(covers[i] for i in passages)))


@given(PASSAGES, st.integers(1, 4))
def test_max_cover_is_the_best_of_all_choices(covers: list[frozenset[int]], k: int) -> None:
    passages, bound = max_cover(covers, k)
    assert n_covered(covers, passages) == bound == brute_force(covers, k)
    assert len(passages) <= k


def test_greedy_can_fail_where_the_search_does_not() -> None:
    # Greedy takes the passage with four answers and then needs two more for the other two.
    covers = [{0, 1, 2, 3}, {0, 1, 4}, {2, 3, 5}]
    coverage = Coverage.of_lists([6], [covers])
    assert greedy(coverage, 2, alpha=1.0).gains.sum() == 5
    assert best_cover(coverage, 2).positions == [[1, 2]]


def test_a_search_cut_short_says_how_much_more_there_might_be() -> None:
    chance = np.random.default_rng(3)
    covers = [frozenset(chance.choice(60, size=6, replace=False).tolist()) for _ in range(60)]
    (hurried, wide), (patient, narrow) = (max_cover(covers, 5, work) for work in (2, 3000))
    assert n_covered(covers, hurried) <= n_covered(covers, patient) <= narrow <= wide
    assert wide > n_covered(covers, hurried)


@given(coverages(), st.integers(1, 6))
def test_the_best_order_beats_every_run(case: tuple[list[int], Covers], k: int) -> None:
    run = coverage_of(case)
    best = run.reorder(best_cover(run, k).positions)
    for measure in (MRecall @ k, StRecall @ k):
        assert (measure.of(JudgedRun(best, run)) >= measure.of(JudgedRun(run, run))).all()


@given(coverages(), st.integers(1, 6))
def test_greedy_is_exact_for_mrecall(case: tuple[list[int], Covers], k: int) -> None:
    # Each greedy step adds an answer while one is left, and MRecall asks for at most k.
    run = coverage_of(case)
    quick = run.reorder(greedy(run, k, alpha=1.0).positions())
    exact = run.reorder(best_cover(run, k).positions)
    judged = [(MRecall @ k).of(JudgedRun(order, run)).tolist() for order in (quick, exact)]
    assert judged[0] == judged[1]


@given(coverages(), st.integers(1, 6), st.sampled_from([0.0, 0.5, 0.9, 1.0]))
def test_the_greedy_order_has_the_greedy_gain(
    case: tuple[list[int], Covers], k: int, alpha: float
) -> None:
    pool = coverage_of(case)
    ideal = pool.reorder(greedy(pool, k, alpha).positions())
    values = (alpha_nDCG(alpha) @ k).of(JudgedRun(ideal, pool))
    np.testing.assert_allclose(values, np.where(found(pool) > 0, 1.0, 0.0))


def test_equal_passages_are_taken_in_their_order() -> None:
    coverage = Coverage.of_lists([2], [[set(), {1}, {0}, {1}]])
    assert greedy(coverage, 3, alpha=1.0).positions() == [[1, 2]]
    assert greedy(coverage, 3, alpha=0.5).positions() == [[1, 2, 3]]


def test_nothing_to_choose_from() -> None:
    coverage = Coverage.of_lists([2, 1], [[], [set()]])
    assert greedy(coverage, 2, alpha=0.5).positions() == [[], []]
    assert best_cover(coverage, 2).positions == [[], []]
    assert max_cover([], 3) == ([], 0)
