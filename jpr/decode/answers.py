"""What candidates say of a question's answers, and how likely each answer is right."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from jpr.decode.search import Row
from jpr.types import Prefix

Floats = NDArray[np.float64]
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

    def found(self, prefix: Prefix) -> NDArray[np.bool_]:
        """Return which answers (A,) the passages of a prefix contain."""
        return np.asarray(self.contains[list(prefix)].any(axis=0))

    def new_mass(self, prefix: Prefix, log_probs: Row) -> Floats:
        """Return the mass of answers (A,) given log P (C,), 0 for those the prefix contains."""
        mass: Floats = np.exp(log_probs.astype(np.float64)) @ self.exact_probs
        return np.where(self.found(prefix), 0.0, mass)

    def worth(self, prefix: Prefix, log_probs: Row) -> Floats:
        """Return for each candidate (C,) the mass of the answers that it adds to a prefix."""
        worth: Floats = self._exact_contains @ self.new_mass(prefix, log_probs)
        return worth

    def repeated(self, prefix: Prefix) -> Floats:
        """Return the share of what each candidate (C,) says that a prefix already contains."""
        said = self.exact_probs.sum(axis=1)
        again = self.exact_probs @ self.found(prefix).astype(np.float64)
        return np.asarray(np.divide(again, said, out=np.zeros_like(said), where=said > 0))

    def support(self, log_probs: Row) -> tuple[Floats, Floats]:
        """Return what candidates say of each answer (A,), given log P (C,): all, and the best."""
        share = np.exp(log_probs.astype(np.float64))
        best = share[:, None] / share.max(initial=np.finfo(np.float64).tiny) * self.exact_probs
        return share @ self.exact_probs, best.max(axis=0, initial=0.0)

    @cached_property
    def exact_probs(self) -> Floats:
        """P(answer | candidate) (C, A) in 64 bits."""
        return self.probs.astype(np.float64)

    @cached_property
    def _exact_contains(self) -> Floats:
        return self.contains.astype(np.float64)
