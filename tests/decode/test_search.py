import math
from collections.abc import Sequence
from functools import cache
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jpr.decode.search import Limits, Rows, Search, chosen_passages, decode_many
from jpr.decode.sequences import beam, independent, sequence
from jpr.decode.tree import length_penalty, tree
from jpr.errors import ConfigError, DataError
from jpr.types import Prefix
from tests.decode.alone import decode


class Chance:
    """log P(p | prefix) drawn once for each prefix; passages of the prefix have none."""

    def __init__(self, n: int, seed: int) -> None:
        self.n, self.seed = n, seed
        self.row = cache(self._row)

    def _row(self, prefix: Prefix) -> np.ndarray:
        chance = np.random.default_rng([self.seed, *(i + 1 for i in prefix)])
        logits = np.round(chance.normal(size=self.n), 1)  # rounded, so that there are ties
        logits[list(prefix)] = -np.inf
        return np.asarray(logits - np.log(np.exp(logits).sum()))

    def __call__(self, prefixes: Sequence[Prefix]) -> Rows:
        return [self.row(prefix) for prefix in prefixes]


models = st.builds(Chance, st.integers(1, 6), st.integers(0, 10_000))
counts = st.integers(0, 7)
betas = st.sampled_from([-3.0, -1.0, 0.0, 0.5, 2.0, 6.0])


def transcribed(model: Chance, k: int, beta: float) -> tuple[list[int], list[Prefix]]:
    """Algorithm 1 of the paper, line by line, with our rule for ties."""
    chosen: list[int] = []
    grown: list[Prefix] = [()]
    while len(chosen) < k:
        best: tuple[float, int, int, int] | None = None
        for opened, s in enumerate(grown):
            for p in range(model.n):
                if (*s, p) in grown or p in s:
                    continue
                score = ((5 + len(s) + 1) / 6) ** beta * float(model.row(s)[p])
                order = (-score, len(s), opened, p)
                best = order if best is None or order < best else best
        assert best is not None
        _, _, opened, p = best
        if p not in chosen:
            chosen.append(p)
        grown.append((*grown[opened], p))
    return chosen, grown[1:]


@given(models, counts, betas)
def test_tree_decode_is_algorithm_1(model: Chance, k: int, beta: float) -> None:
    found = decode(tree(model.n, Limits(k), beta), model)
    chosen, grown = transcribed(model, min(k, model.n), beta)
    assert list(chosen_passages(found)) == chosen
    assert [(*node.prefix, node.passage) for node in found] == grown


@given(models, counts, betas, st.integers(2, 9))
def test_looking_ahead_changes_nothing_but_how_often_the_model_is_asked(
    model: Chance, k: int, beta: float, ahead: int
) -> None:
    asked: list[Sequence[Prefix]] = []

    def listening(prefixes: Sequence[Prefix]) -> Rows:
        asked.append(prefixes)
        assert len(prefixes) <= ahead
        assert all(len(prefix) < model.n for prefix in prefixes)
        return model(prefixes)

    found = decode(tree(model.n, Limits(k), beta, ahead), listening)
    assert found == decode(tree(model.n, Limits(k), beta), model)
    assert len(asked) <= len(found)
    assert len(set().union(*asked)) == sum(map(len, asked)), "no prefix is asked for twice"


class ChanceOfSets(Chance):
    """The same for prefixes of the same passages in any order."""

    def _row(self, prefix: Prefix) -> np.ndarray:
        return super()._row(tuple(sorted(prefix)))


sets = st.builds(ChanceOfSets, st.integers(1, 6), st.integers(0, 10_000))


@given(sets, counts, betas, st.integers(1, 9))
def test_over_sets_the_tree_is_smaller_and_finds_the_same_where_order_makes_no_difference(
    model: Chance, k: int, beta: float, ahead: int
) -> None:
    whole = decode(tree(model.n, Limits(k), beta), model)
    found = decode(tree(model.n, Limits(k), beta, ahead, ordered=False), model)
    assert chosen_passages(found) == chosen_passages(whole)
    assert len(found) <= len(whole)
    grown = [frozenset((*node.prefix, node.passage)) for node in found]
    assert len(grown) == len(set(grown)), "no set is grown twice"


@given(models, counts)
def test_a_large_beta_is_independent_scoring(model: Chance, k: int) -> None:
    wide = decode(tree(model.n, Limits(k), beta=500.0), model)
    alone = decode(independent(model.n, Limits(k)), model)
    assert chosen_passages(wide) == chosen_passages(alone)


@given(models, counts)
def test_where_the_next_step_is_always_surest_the_tree_is_the_sequence(
    model: Chance, k: int
) -> None:
    def surer(prefixes: Sequence[Prefix]) -> Rows:
        """Each step surer than all of the step before: log-probabilities divided by 1000."""
        return [model.row(prefix) / 1000.0 ** len(prefix) for prefix in prefixes]

    deep = decode(tree(model.n, Limits(k)), surer)
    straight = decode(sequence(model.n, Limits(k)), surer)
    assert chosen_passages(deep) == chosen_passages(straight)


@given(models, counts)
def test_a_beam_of_one_is_the_sequence_and_a_full_one_the_best_of_all(
    model: Chance, k: int
) -> None:
    k = min(k, model.n)
    straight = decode(sequence(model.n, Limits(k)), model)
    assert chosen_passages(decode(beam(model.n, Limits(k), width=1), model)) == chosen_passages(
        straight
    )

    def total(order: Sequence[int]) -> float:
        return sum(float(model.row(tuple(order[:i]))[p]) for i, p in enumerate(order))

    found = chosen_passages(decode(beam(model.n, Limits(k), width=10_000), model))
    assert total(found) == pytest.approx(max(map(total, permutations(range(model.n), k))))


@given(models, st.integers(1, 6), betas)
def test_each_decoder_finds_k_distinct_passages_or_all(model: Chance, k: int, beta: float) -> None:
    limits = Limits(k)
    searches: list[Search] = [
        tree(model.n, limits, beta),
        sequence(model.n, limits),
        independent(model.n, limits),
        beam(model.n, limits),
    ]
    for search in searches:
        found = chosen_passages(decode(search, model))
        assert len(found) == len(set(found)) == min(k, model.n)


@given(st.lists(models, max_size=4), st.integers(1, 4), betas)
def test_questions_decoded_together_are_decoded_as_alone(
    together: list[Chance], k: int, beta: float
) -> None:
    calls = 0

    def scores(expected: Sequence[tuple[int, Prefix]]) -> Rows:
        nonlocal calls
        calls += 1
        return [together[number].row(prefix) for number, prefix in expected]

    found = decode_many([tree(m.n, Limits(k), beta) for m in together], scores)
    alone = [decode(tree(m.n, Limits(k), beta), m) for m in together]
    assert found == alone
    assert calls == max((len(d) for d in alone), default=0)  # one call a round


@given(models, st.integers(1, 6), st.integers(0, 12), st.data())
def test_a_budget_is_never_exceeded_nor_left_when_something_fits(
    model: Chance, k: int, budget: int, data: st.DataObject
) -> None:
    costs = data.draw(st.lists(st.integers(1, 5), min_size=model.n, max_size=model.n))
    limits = Limits(k, budget=budget, costs=costs)
    searches: list[Search] = [
        tree(model.n, limits),
        sequence(model.n, limits),
        independent(model.n, limits),
        beam(model.n, limits),
    ]
    for search in searches:
        found = chosen_passages(decode(search, model))
        spent = sum(costs[p] for p in found)
        assert spent <= budget
        left = [costs[p] for p in range(model.n) if p not in found]
        assert len(found) == min(k, model.n) or all(spent + cost > budget for cost in left)


def test_the_tree_says_why() -> None:
    table = {(): [-0.1, -0.3, -9.0], (0,): [-9.0, -1.0, -0.2], (0, 2): [-9.0, -0.9, -9.0]}
    table |= {(1,): [-2.0, -9.0, -0.25]}
    rows = {prefix: np.array(row) for prefix, row in table.items()}
    found = decode(tree(3, Limits(3)), lambda prefixes: [rows[p] for p in prefixes])
    assert chosen_passages(found) == (0, 2, 1)
    assert max(len(node.prefix) + 1 for node in found) == 2
    assert [(node.prefix, node.passage) for node in found] == [((), 0), ((0,), 2), ((), 1)]
    assert found[1].instead_of == (((), 1, -0.3), ((0,), 1, -1.0), ((), 2, -9.0))


def test_a_passage_may_be_expanded_again_but_counts_once() -> None:
    table = {(): [-0.1, -0.2, -9.0], (0,): [-9.0, -0.3, -0.5], (1,): [-9.0, -9.0, -9.0]}
    table |= {(0, 1): [-9.0, -9.0, -8.0]}
    rows = {prefix: np.array(row) for prefix, row in table.items()}
    found = decode(tree(3, Limits(3)), lambda prefixes: [rows[p] for p in prefixes])
    assert [(*n.prefix, n.passage) for n in found] == [(0,), (1,), (0, 1), (0, 2)]
    assert [n.is_new for n in found] == [True, True, False, True]
    assert chosen_passages(found) == (0, 1, 2)


def test_the_penalty_is_that_of_the_paper() -> None:
    assert length_penalty(3, 2.0) == pytest.approx((8 / 6) ** 2)


def test_what_is_no_distribution_is_refused() -> None:
    with pytest.raises(DataError, match="NaN"):
        decode(tree(2, Limits(1)), lambda prefixes: [np.array([math.nan, 0.0])])
    with pytest.raises(DataError, match="rows of 2"):
        decode(sequence(2, Limits(1)), lambda prefixes: [np.zeros(3)])
    with pytest.raises(ConfigError, match="costs for 3 candidates"):
        decode(tree(3, Limits(1, budget=5)), Chance(3, 0))
    with pytest.raises(ConfigError, match="width 0"):
        decode(beam(3, Limits(1), width=0), Chance(3, 0))
    with pytest.raises(ConfigError, match="k = -1"):
        Limits(-1)


def test_without_candidates_nothing_is_chosen() -> None:
    for search in (tree(0, Limits(5)), sequence(0, Limits(5)), independent(0, Limits(5))):
        assert chosen_passages(decode(search, Chance(1, 0))) == ()
