"""Passages chosen for the answers they add: facts by hand, and laws."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from jpr.decode.answers import Evidence
from jpr.decode.conditioning import (
    COVERAGE,
    UNCONDITIONED,
    Conditioned,
    Conditioning,
    Observed,
    scaled,
)
from jpr.decode.search import Limits, Rows, chosen_passages, decode_many
from jpr.decode.sequences import independent, sequence
from jpr.decode.tree import tree
from jpr.errors import ConfigError, DataError
from jpr.types import Prefix
from tests.decode.alone import NextLogProbs, decode

Floats = NDArray[np.float64]


def evidence_of(*rows: Sequence[float]) -> Evidence:
    """What each candidate says, which is also what it holds."""
    says = np.array(rows, dtype=np.float32)
    return Evidence(tuple((token,) for token in range(says.shape[1])), says, says > 0)


def fixed(probs: Sequence[float]) -> NextLogProbs:
    """A model that thinks the same of the others whatever was chosen."""

    def rows(prefixes: Sequence[Prefix]) -> Rows:
        return [row(probs, prefix) for prefix in prefixes]

    return rows


def row(probs: Sequence[float], prefix: Prefix) -> Floats:
    left = np.array(probs, dtype=np.float64)
    left[list(prefix)] = 0.0
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(left / left.sum()))


def for_answers(probs: Sequence[float], evidence: Evidence) -> NextLogProbs:
    model = fixed(probs)
    asked = Conditioned(
        lambda expected: model([prefix for _, prefix in expected]), [Observed(evidence)]
    )
    return lambda prefixes: asked([(0, prefix) for prefix in prefixes])


def by_coverage(evidence: Evidence, prefix: Prefix, log_probs: Floats) -> Floats:
    return COVERAGE.log_probs(Observed(evidence), prefix, log_probs)


TWINS = evidence_of([1, 0], [1, 0], [0, 1])


def test_of_twins_and_another_one_of_each_is_chosen() -> None:
    probs, two = [0.4, 0.35, 0.25], Limits(2)
    assert chosen_passages(decode(independent(3, two), fixed(probs))) == (0, 1)
    assert chosen_passages(decode(sequence(3, two), fixed(probs))) == (0, 1)
    assert chosen_passages(decode(sequence(3, two), for_answers(probs, TWINS))) == (0, 2)
    assert chosen_passages(decode(tree(3, two, beta=-1.0), for_answers(probs, TWINS))) == (0, 2)


def test_an_answer_in_many_passages_counts_for_more() -> None:
    evidence = evidence_of([1, 0], [0, 1], [0, 1])
    found = np.exp(by_coverage(evidence, (), np.log([0.4, 0.3, 0.3])))
    floors = 0.001 * np.array([0.4, 0.3, 0.3])
    assert found == pytest.approx((np.array([0.4, 0.6, 0.6]) + floors) / 1.601)


def test_a_candidate_is_worth_what_it_contains_and_others_state() -> None:
    holds = np.array([[1, 0], [0, 1], [1, 1]], dtype=np.bool_)
    evidence = replace(evidence_of([1, 0], [0, 1], [0, 0]), contains=holds)
    probs = np.array([0.45, 0.45, 0.1])
    assert evidence.new_mass((), np.log(probs)).tolist() == pytest.approx([0.45, 0.45])
    assert by_coverage(evidence, (), np.log(probs)).argmax() == 2
    assert evidence.new_mass((2,), row([0.45, 0.45, 0.1], (2,))).tolist() == [0.0, 0.0]


def test_a_passage_is_worth_how_likely_it_adds_the_next_answer() -> None:
    asked = Conditioned(
        lambda expected: [np.log([0.5, 0.3, 0.2]) for _ in expected], [Observed(TWINS)]
    )
    asked([(0, ()), (0, (0,))])
    assert [np.exp(asked.worth(0, (), passage)) for passage in (0, 2)] == pytest.approx([0.8, 0.2])
    assert asked.worth(0, (0,), 2) == pytest.approx(np.log(0.2))
    assert asked.worth(0, (0,), 1) == pytest.approx(np.log(1e-9))  # a twin adds nothing


def test_where_every_answer_was_found_the_model_decides() -> None:
    own = row([0.1, 0.2, 0.3, 0.4], (0,))
    evidence = evidence_of([0.5, 0.5], [1, 0], [0, 1], [0, 0.9])
    np.testing.assert_allclose(by_coverage(evidence, (0,), own), own)


def test_nothing_is_left_and_nothing_is_likely() -> None:
    for prefix, log_probs in [((0, 1, 2), [-np.inf] * 3), ((0,), [0.0, -np.inf, -np.inf])]:
        found = by_coverage(TWINS, prefix, np.array(log_probs))
        assert np.isneginf(found).all()
    single = evidence_of([1])
    assert by_coverage(single, (), np.zeros(1)).tolist() == [0.0]
    assert chosen_passages(decode(sequence(1, Limits(3)), for_answers([1.0], single))) == (0,)


def test_what_is_no_number_is_refused_as_ever() -> None:
    asked = Conditioned(
        lambda expected: [np.array([np.nan, 0.0, 0.0]) for _ in expected], [Observed(TWINS)]
    )
    with pytest.raises(DataError, match="NaN"):
        decode(sequence(3, Limits(2)), lambda prefixes: asked([(0, p) for p in prefixes]))


def test_each_question_has_its_own_evidence() -> None:
    model = fixed([0.4, 0.35, 0.25])
    asked: list[Sequence[tuple[int, Prefix]]] = []

    def ask(expected: Sequence[tuple[int, Prefix]]) -> Rows:
        asked.append(expected)
        return model([prefix for _, prefix in expected])

    evidence = [TWINS, evidence_of([1, 0], [0, 1], [1, 0])]
    searches = [sequence(3, Limits(2)) for _ in evidence]
    found = decode_many(searches, Conditioned(ask, list(map(Observed, evidence))))
    assert [chosen_passages(decoded) for decoded in found] == [(0, 2), (0, 1)]
    assert asked == [[(0, ()), (1, ())], [(0, (0,)), (1, (0,))]]


@dataclass(frozen=True)
class Case:
    """What n candidates say and hold, and a model's thoughts after a prefix."""

    evidence: Evidence
    prefix: Prefix
    probs: list[float]

    @property
    def log_probs(self) -> Floats:
        return row(self.probs, self.prefix)

    @property
    def covered(self) -> Floats:
        return by_coverage(self.evidence, self.prefix, self.log_probs)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    n, answers = draw(st.integers(1, 6)), draw(st.integers(0, 8))
    chance = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    says = chance.random((n, answers)) * (chance.random((n, answers)) < 0.4)
    says /= np.maximum(says.sum(axis=1, keepdims=True), 1.0)
    holds = (says > 0) | (chance.random((n, answers)) < 0.2)
    names = tuple((token,) for token in range(answers))
    prefix = tuple(chance.permutation(n)[: chance.integers(0, n)].tolist())
    probs = chance.random(n) + 1e-6
    return Case(Evidence(names, says.astype(np.float32), holds), prefix, probs.tolist())


@given(cases())
def test_it_is_a_distribution_over_what_is_not_chosen(case: Case) -> None:
    assert np.exp(case.covered).sum() == pytest.approx(1.0)
    chosen = np.isin(np.arange(len(case.probs)), case.prefix)
    assert np.array_equal(np.isneginf(case.covered), chosen)


@given(cases())
def test_what_a_chosen_passage_holds_counts_no_more(case: Case) -> None:
    found = case.evidence.contains[list(case.prefix)].any(axis=0)
    adds = case.evidence.new_mass(case.prefix, case.log_probs)
    assert (adds[found] == 0).all()
    kept = np.flatnonzero(~found)
    without = Evidence(
        tuple(case.evidence.answers[answer] for answer in kept),
        case.evidence.probs[:, kept],
        case.evidence.contains[:, kept],
    )
    again = by_coverage(without, case.prefix, case.log_probs)
    np.testing.assert_allclose(np.exp(again), np.exp(case.covered), rtol=1e-9)


def relabelled(evidence: Evidence, order: Sequence[int]) -> Evidence:
    """The candidates in another order: the new i is the old order[i]."""
    at = list(order)
    return Evidence(evidence.answers, evidence.probs[at], evidence.contains[at])


@given(cases(), st.randoms(use_true_random=False))
def test_candidates_by_other_numbers_are_worth_the_same(case: Case, random: Random) -> None:
    n = len(case.probs)
    order = random.sample(range(n), n)
    prefix = tuple(order.index(passage) for passage in case.prefix)
    found = by_coverage(relabelled(case.evidence, order), prefix, case.log_probs[order])
    np.testing.assert_allclose(np.exp(found), np.exp(case.covered[order]), rtol=1e-9)


@given(cases(), st.integers(1, 4))
def test_the_choice_does_not_depend_on_the_order_of_candidates(case: Case, k: int) -> None:
    n = len(case.probs)
    order = list(range(n))[::-1]
    for search in (sequence, tree):
        forth = decode(search(n, Limits(k)), for_answers(case.probs, case.evidence))
        back = decode(
            search(n, Limits(k)),
            for_answers([case.probs[i] for i in order], relabelled(case.evidence, order)),
        )
        scores = [[node.score for node in decoded] for decoded in (forth, back)]
        np.testing.assert_allclose(scores[0], scores[1], rtol=1e-9)
        assert chosen_passages(forth) == tuple(order[passage] for passage in chosen_passages(back))


@given(cases())
def test_without_answers_it_is_the_models_own_distribution(case: Case) -> None:
    n = len(case.probs)
    none = Evidence((), np.zeros((n, 0), np.float32), np.zeros((n, 0), np.bool_))
    np.testing.assert_allclose(by_coverage(none, case.prefix, case.log_probs), case.log_probs)


def test_the_decoder_alone_is_a_special_case() -> None:
    given = row([0.5, 0.3, 0.2], (0,))
    found = UNCONDITIONED.log_probs(Observed(TWINS), (0,), given)
    np.testing.assert_allclose(np.exp(found), [0, 0.6, 0.4])


def test_each_weight_multiplies_what_it_names() -> None:
    given, first_stage = row([0.5, 0.3, 0.2], (0,)), np.array([1.0, 0.5, 0.0])
    seen = Observed(TWINS, first_stage, words=10)

    def odds(**weights: float) -> float:
        """log P of the twin of the first passage, minus that of the third."""
        every = {"answers": 0.0} | weights
        found = Conditioning(**every).log_probs(seen, (0,), given)
        return float(found[1] - found[2])

    adds = np.log(0.001 * 0.6) - np.log(0.4 + 0.001 * 0.4)
    assert odds(relevance=2.0) == pytest.approx(2 * np.log(0.6 / 0.4))
    assert odds(answers=1.0) == pytest.approx(adds)
    assert odds(answers_per_word=0.1) == pytest.approx(adds)
    assert odds(repeats=-3.0) == pytest.approx(-3.0)  # the twin says what the prefix contains
    assert odds(first_stage=4.0) == pytest.approx(2.0)


def test_without_trust_the_first_stage_decides() -> None:
    seen = Observed(TWINS, scaled(np.array([3.0, 9.0, 5.0])))
    given = Conditioning(1.0, 1.0, 0.0, -2.0, 3.0).adjusted(trust=0.0, relevance=0.5)
    found = given.log_probs(seen, (), np.log([0.98, 0.01, 0.01]))
    assert np.argsort(-found).tolist() == [1, 2, 0]
    equal = given.log_probs(Observed(TWINS), (), np.log([0.01, 0.01, 0.98]))
    assert len(set(equal.tolist())) == 1  # no scores: the order of the run stays


def test_scores_that_are_no_numbers_say_nothing() -> None:
    assert scaled(np.array([])) is None
    assert scaled(np.array([1.0, np.inf])) is None
    assert scaled(np.array([np.nan, 1.0])) is None
    with pytest.raises(ConfigError, match="finite"):
        Conditioning(relevance=float("nan"))


weights = st.builds(Conditioning, *[st.floats(-3, 3)] * 5)


@given(cases(), weights, st.integers(0, 60))
def test_with_any_weights_it_is_a_distribution(case: Case, given: Conditioning, words: int) -> None:
    n = len(case.probs)
    seen = Observed(case.evidence, np.linspace(1, 0, n), words)
    found = given.log_probs(seen, case.prefix, case.log_probs)
    assert np.exp(found).sum() == pytest.approx(1.0)
    assert np.array_equal(np.isneginf(found), np.isin(np.arange(n), case.prefix))


@given(cases(), st.floats(-5, 5), st.floats(0.1, 9))
def test_scores_on_another_scale_change_nothing(case: Case, shift: float, scale: float) -> None:
    scores = np.random.default_rng(len(case.probs)).random(len(case.probs))
    learned = Conditioning(0.8, 0.9, -0.02, -1.0, 2.9)
    one, two = (
        learned.log_probs(Observed(case.evidence, scaled(own)), case.prefix, case.log_probs)
        for own in (scores, scores * scale + shift)
    )
    np.testing.assert_allclose(np.exp(one), np.exp(two), rtol=1e-6)
