"""The weights of P(next | prefix), fitted: what they learn from questions made for it."""

from collections.abc import Callable

import numpy as np
import pytest

from jpr.decode.answers import Evidence
from jpr.decode.conditioning import COVERAGE, Conditioning, Observed
from jpr.decode.search import Row
from jpr.errors import DataError
from jpr.train.conditioning import ConditioningExample, fit_conditioning
from jpr.types import Prefix


def same_for_all(log_probs: Row) -> Callable[[Prefix], Row]:
    """log R(c | prefix) of a decoder that only leaves out the prefix."""

    def relevance(prefix: Prefix) -> Row:
        left = log_probs.copy()
        left[list(prefix)] = -np.inf
        return np.asarray(left - np.logaddexp.reduce(left))

    return relevance


def example(says: list[int], right: list[int], first_stage: list[float]) -> ConditioningExample:
    """Candidates that state one answer each, of which some are right."""
    probs = np.zeros((len(says), max(says) + 1), dtype=np.float32)
    probs[np.arange(len(says)), says] = 0.9
    evidence = Evidence(tuple((a,) for a in range(probs.shape[1])), probs, probs > 0)
    covers = np.array([[answer == gold for gold in right] for answer in says], dtype=np.bool_)
    relevance = same_for_all(np.log(np.full(len(says), 1 / len(says))))
    return ConditioningExample(Observed(evidence, np.array(first_stage)), relevance, covers)


def test_where_the_first_stage_is_right_its_score_gets_weight() -> None:
    says, scores = list(range(8)), [1.0, 0.9, 0.3, 0.2, 0.1, 0.1, 0.0, 0.0]
    found = fit_conditioning([example(says, [0, 1], scores)] * 3)
    assert found.first_stage > 2
    reverse = fit_conditioning([example(says, [0, 1], scores[::-1])] * 3)
    assert reverse.first_stage < 0


def test_where_repeats_never_help_new_answers_are_preferred() -> None:
    says = [0, 0, 0, 1, 1, 2, 3, 4]
    flat = [0.0] * len(says)
    found = fit_conditioning([example(says, [0, 1, 2], flat)] * 3, seed=1)
    repeats, seen = example(says, [0], flat), ()
    row = found.log_probs(repeats.observed, (0,), repeats.relevance((0,)))
    assert max(row[1], row[2]) < min(row[3:])
    assert np.exp(found.log_probs(repeats.observed, seen, repeats.relevance(seen))).sum() == (
        pytest.approx(1.0)
    )


def test_the_fit_is_the_same_every_time_and_its_loss_below_that_of_coverage() -> None:
    chance = np.random.default_rng(3)
    examples = [
        example([0, *chance.integers(0, 5, 8).tolist()], [0, 1], sorted(chance.random(9).tolist()))
        for _ in range(20)
    ]
    found = fit_conditioning(examples, k=4, seed=2)
    assert found == fit_conditioning(examples, k=4, seed=2)

    def loss(weights: Conditioning) -> float:
        """Of the first step alone: −log Σ P(target)."""
        rows = [weights.log_probs(one.observed, (), one.relevance(())) for one in examples]
        targets = [one.covers.any(axis=1) for one in examples]
        both = zip(rows, targets, strict=True)
        return float(sum(-np.log(np.exp(row)[target].sum()) for row, target in both))

    assert loss(found) < loss(COVERAGE)


def test_without_an_answer_among_the_candidates_nothing_is_fitted() -> None:
    with pytest.raises(DataError, match="no candidate contains an answer"):
        fit_conditioning([example([0, 1, 2], [7], [1.0, 0.5, 0.0])])
