"""Choose passages by the answers they add, with any search.

A model gives P(c | prefix), how likely each candidate is to come next, and, if it reads answers,
P(a | c), how likely a candidate says that a is an answer, each answer on its own. Then a counts as

    mass(a | prefix) = Σ_c P(c | prefix) · P(a | c),

and a candidate is worth the answers it contains and no passage of the prefix contains:

    P'(c | prefix) ∝ Σ_{a in c, in no passage of the prefix} mass(a | prefix).

So an answer that many candidates give counts more, and an answer that was found counts no more.
A candidate may contain an answer but be about something else; P' · P(c | prefix)^λ prefers those
that are about it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log

import numpy as np
from numpy.typing import NDArray

from jpr.decode.search import Ask, Row, Rows
from jpr.types import Prefix

Floats = NDArray[np.float64]
_FLOOR = 1e-3  # the share of P(c | prefix) itself, which decides when every answer was found
_MINIMUM = 1e-9  # the worth of a passage that adds nothing
_LEAST = 1e-4  # what a mass or a probability is at least, before its logarithm is taken


@dataclass(frozen=True, slots=True)
class AnswerCalibration:
    """How the probability that an answer is right follows from what candidates say of it.

    P(c) is flattened first: what decides which candidate comes first leaves too little to the other
    answers (docs/lab.md, "Which answers to give, and how many"). Then a logistic function of two
    numbers, fitted on development data: all support, and the best single one,

        logit P(a) = bias + mass · log Σ_c P(c) P(a | c) + best · logit max_c r(c) P(a | c),

    where r(c) is P(c) divided by that of the most likely candidate.
    """

    temperature: float = 1.0
    bias: float = 0.0
    mass: float = 1.0
    best: float = 0.0

    def flat(self, log_probs: Row) -> Floats:
        """Return log P (C,) at the temperature."""
        flat = log_probs.astype(np.float64) / self.temperature
        top = flat.max(initial=-np.inf)
        if np.isneginf(top):
            return flat
        found: Floats = flat - top - np.log(np.exp(flat - top).sum())
        return found

    def probabilities(self, mass: Floats, best: Floats) -> Floats:
        """Return P(a) (A,) of answers with this support, all and best (`Evidence.support`)."""
        log_mass, best_logit = log_support(mass, best)
        logits = self.bias + self.mass * log_mass + self.best * best_logit
        return np.asarray(1 / (1 + np.exp(-logits)))


def log_support(mass: Floats, best: Floats) -> tuple[Floats, Floats]:
    """Return what the logistic function adds up: the logarithm of mass, and the logit of best."""
    likely = best.clip(_LEAST, 1 - _LEAST)
    return np.log(mass.clip(min=_LEAST)), np.log(likely) - np.log1p(-likely)


UNCALIBRATED = AnswerCalibration()


@dataclass(frozen=True, eq=False)
class Evidence:
    """The answers that C candidates of a question may have, A in total."""

    answers: tuple[tuple[int, ...], ...]  # the tokens of each
    probs: NDArray[np.float32]  # (C, A) P(answer | candidate), each on its own
    contains: NDArray[np.bool_]  # (C, A) whether a candidate contains the answer

    def new_mass(self, prefix: Prefix, log_probs: Row) -> Floats:
        """Return the mass of answers (A,) given log P (C,), 0 for those the prefix contains."""
        found = self.contains[list(prefix)].any(axis=0)
        mass: Floats = np.exp(log_probs.astype(np.float64)) @ self._exact[0]
        return np.where(found, 0.0, mass)

    def support(self, log_probs: Row) -> tuple[Floats, Floats]:
        """Return what candidates say of each answer (A,), given log P (C,): all, and the best."""
        share = np.exp(log_probs.astype(np.float64))
        best = share[:, None] / share.max(initial=np.finfo(np.float64).tiny) * self._exact[0]
        return share @ self._exact[0], best.max(axis=0, initial=0.0)

    def log_probs(self, prefix: Prefix, log_probs: Row, relevance: float = 0.0) -> Floats:
        """Return log P' (C,), given log P (C,) after a prefix; `relevance` is λ.

        >>> probs = np.array([[1, 0], [1, 0], [0, 1]], dtype=np.float32)
        >>> evidence = Evidence(((7,), (9,)), probs, probs > 0)
        >>> given = np.log([0.5, 0.3, 0.2])
        >>> np.exp(evidence.log_probs((), given)).round(2).tolist()  # the first two say the same
        [0.44, 0.44, 0.11]
        >>> after = np.array([-np.inf, np.log(0.6), np.log(0.4)])
        >>> np.exp(evidence.log_probs((0,), after)).round(2).tolist()
        [0.0, 0.0, 1.0]
        >>> np.exp(evidence.log_probs((), given, relevance=1.0)).round(2).tolist()
        [0.59, 0.35, 0.06]
        """
        share = np.exp(log_probs.astype(np.float64))
        worth = self._exact[1] @ self.new_mass(prefix, log_probs) + _FLOOR * share
        worth *= share**relevance
        worth[list(prefix)] = 0.0
        total = worth.sum() or 1.0  # nothing is left to choose, or nothing that is likely
        with np.errstate(divide="ignore"):
            found: Floats = np.log(worth / total)
        return found

    @cached_property
    def _exact(self) -> tuple[Floats, Floats]:
        return self.probs.astype(np.float64), self.contains.astype(np.float64)


class Covering:
    """A model that prefers passages which add answers; evidence is by question.

    It asks the model again for what it asked before: wrap one that remembers.
    """

    def __init__(
        self,
        ask: Ask,
        evidence: Sequence[Evidence],
        relevance: float = 0.0,
        calibration: AnswerCalibration = UNCALIBRATED,
    ) -> None:
        """Wrap a model, given the answers of each question's candidates and λ."""
        self._ask, self.evidence, self._relevance = ask, evidence, relevance
        self._calibration, self._flat = calibration, calibration.flat

    def __call__(self, pairs: Sequence[tuple[int, Prefix]]) -> Rows:
        """Return log P', a row for each (question, prefix)."""
        return [
            self.evidence[question].log_probs(prefix, self._flat(row), self._relevance)
            for (question, prefix), row in zip(pairs, self._ask(pairs), strict=True)
        ]

    def overall(self, question: int) -> Floats:
        """Return P(a) (A,) before anything is chosen: the probability that each is right."""
        support = self.evidence[question].support(self._row(question, ()))
        return self._calibration.probabilities(*support)

    def new_mass(self, question: int, prefix: Prefix) -> Floats:
        """Return the mass of answers (A,), 0 for those that the prefix contains."""
        return self.evidence[question].new_mass(prefix, self._row(question, prefix))

    def worth(self, question: int, prefix: Prefix, passage: int) -> float:
        """Return log P that the next answer is one which a passage adds to a prefix.

        It is very small, not −∞, if the passage adds nothing.
        """
        added = self.new_mass(question, prefix)[self.evidence[question].contains[passage]]
        return log(max(added.sum(), _MINIMUM))

    def _row(self, question: int, prefix: Prefix) -> Floats:
        return self._flat(self._ask([(question, prefix)])[0])
