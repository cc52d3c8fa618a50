"""Fit the weights of P(next | prefix) by the paper's loss, the model itself frozen.

Prefixes are those of the dynamic oracle, Õ and negatives in random order, and those that the model
chooses with the weights of the round before. Targets of a prefix are the passages with an answer
that it lacks; the loss of a step is −log Σ P(target | prefix).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jpr.decode.conditioning import COVERAGE, Conditioning, Observed, features
from jpr.decode.search import Limits, Row, Rows, chosen_passages, decode_many
from jpr.decode.sequences import sequence
from jpr.errors import DataError
from jpr.train import dynamic_oracle as oracle
from jpr.types import Prefix

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
ROUNDS = 2
_STEPS, _HALVINGS, _ENOUGH = 100, 20, 1e-9
_RIDGE = 1e-3
_EXCLUDED = -1e30  # the logit of a candidate that cannot be chosen


@dataclass(frozen=True, slots=True, eq=False)
class ConditioningExample:
    """A question whose candidates a model has read."""

    observed: Observed
    relevance: Callable[[Prefix], Row]
    """log R(c | prefix), as the model's calibration flattens it."""
    covers: Flags  # (C, G) which candidates contain which gold answers
    weight: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class _Steps:
    """S steps of up to C candidates each."""

    features: Floats  # (S, C, F)
    targets: Flags  # (S, C)
    free: Flags  # (S, C) which may be chosen
    weights: Floats  # (S,)


def fit_conditioning(
    examples: Sequence[ConditioningExample], k: int = 10, seed: int = 0
) -> Conditioning:
    """Return the weights with the smallest loss over prefixes of up to k - 1 passages."""
    found, chance = COVERAGE, np.random.default_rng(seed)
    for _ in range(ROUNDS):
        steps = _steps(examples, found, k, chance)
        found = Conditioning(*_minimum(steps, np.array(found.vector)).round(3).tolist())
    return found


def _steps(
    examples: Sequence[ConditioningExample], policy: Conditioning, k: int,
    chance: np.random.Generator,
) -> _Steps:  # fmt: skip
    """Return every step that has a target."""
    widest = max((len(one.covers) for one in examples), default=0)
    rows = []
    for one in examples:
        own = [(p, targets) for p, targets in _prefixes(one, policy, k, chance) if targets.any()]
        rows += [(one, prefix, targets, one.weight / len(own)) for prefix, targets in own]
    if not rows:
        raise DataError("no candidate contains an answer; the weights cannot be fitted")
    count = len(features(rows[0][0].observed, (), rows[0][0].relevance(()))[0])
    found = _Steps(
        np.zeros((len(rows), widest, count)),
        np.zeros((len(rows), widest), dtype=np.bool_),
        np.zeros((len(rows), widest), dtype=np.bool_),
        np.array([weight for *_, weight in rows]) / sum(weight for *_, weight in rows),
    )
    for at, (one, prefix, targets, _) in enumerate(rows):
        n = len(one.covers)
        found.features[at, :n] = features(one.observed, prefix, one.relevance(prefix))
        found.targets[at, :n], found.free[at, :n] = targets, True
        found.free[at, list(prefix)] = False
    return found


def _prefixes(
    one: ConditioningExample, policy: Conditioning, k: int, chance: np.random.Generator
) -> Iterator[tuple[Prefix, Flags]]:
    """Yield prefixes with their targets: of an oracle's sequence, and of the policy's."""
    n = len(one.covers)
    covers, present = np.packbits(one.covers, axis=1)[None], np.ones((1, n), dtype=np.bool_)
    scores, noise = one.relevance(()).astype(np.float64)[None], chance.random((2, 1, n))
    chosen = oracle.positives(covers, k)
    assumed = oracle.with_negatives(chosen, present, scores, 1.0, noise[0])[:, :k]
    sequences = [oracle.shuffled(assumed, noise[1][:, : assumed.shape[1]])[0].tolist()]
    sequences.append(list(_chosen(one, policy, k)))
    seen: set[Prefix] = set()
    for passages in sequences:
        targets = oracle.uncovered_targets(covers, np.array([passages]))[0]
        for length in range(len(passages)):
            prefix = tuple(passages[:length])
            if prefix not in seen:
                seen.add(prefix)
                yield prefix, np.asarray(targets[length])


def _chosen(one: ConditioningExample, policy: Conditioning, k: int) -> Sequence[int]:
    def ask(pairs: Sequence[tuple[int, Prefix]]) -> Rows:
        return [policy.log_probs(one.observed, p, one.relevance(p)) for _, p in pairs]

    (nodes,) = decode_many([sequence(len(one.covers), Limits(k))], ask)
    return chosen_passages(nodes)


def _minimum(steps: _Steps, weights: Floats) -> Floats:
    """Return the weights (F,) that minimize the loss, by damped Newton steps."""
    loss, gradient, curvature = _loss(steps, weights)
    for _ in range(_STEPS):
        change = np.linalg.solve(curvature, gradient)
        before = loss
        for halvings in range(_HALVINGS):
            trial = weights - change * 0.5**halvings
            loss, gradient, curvature = _loss(steps, trial)
            if loss <= before:
                weights = trial
                break
        else:
            return weights
        if before - loss < _ENOUGH:
            break
    return weights


def _loss(steps: _Steps, weights: Floats) -> tuple[float, Floats, Floats]:
    """Return the loss, its gradient (F,), and the curvature (F, F) of a bound that touches it."""
    logits = np.where(steps.free, steps.features @ weights, _EXCLUDED)
    every, right = _softmax(logits), _softmax(np.where(steps.targets, logits, _EXCLUDED))
    mass = np.where(steps.targets, every, 0.0).sum(axis=1).clip(min=1e-300)
    expected = np.einsum("sc,scf->sf", every, steps.features)
    of_targets = np.einsum("sc,scf->sf", right, steps.features)
    weighted = every * steps.weights[:, None]
    second = np.einsum("sc,scf,scg->fg", weighted, steps.features, steps.features, optimize=True)
    second -= np.einsum("s,sf,sg->fg", steps.weights, expected, expected)
    ridge = _RIDGE * np.eye(len(weights))
    loss = -(steps.weights @ np.log(mass)) + 0.5 * weights @ ridge @ weights
    gradient = steps.weights @ (expected - of_targets) + ridge @ weights
    return float(loss), gradient, second + ridge


def _softmax(logits: Floats) -> Floats:
    exact = np.exp(logits - logits.max(axis=1, keepdims=True))
    found: Floats = exact / exact.sum(axis=1, keepdims=True)
    return found
