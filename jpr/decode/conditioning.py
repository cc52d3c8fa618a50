"""P(next passage | prefix): the one distribution that all searches use.

A model's decoder gives R(c | prefix), how relevant each candidate is, and, if it reads answers,
P(a | c), how likely a candidate says that a is an answer, each answer on its own. Then a counts as

    mass(a | prefix) = Σ_c R(c | prefix) · P(a | c),

and W(c | prefix) is the mass of the answers that c contains and no passage of the prefix contains:
an answer that many candidates give counts more, and one that was found counts no more. With the
score s(c) of the first stage, from 0 to 1, `Conditioning` puts these together:

    log P(c | prefix) = relevance · log R(c | prefix)
                      + (answers + answers_per_word · words) · log W(c | prefix)
                      + (first_stage + first_stage_per_word · words) · s(c)
                      + repeats · share of what c says that the prefix contains  −  log Z.

Its six weights are learnt by the paper's loss (`jpr.train.conditioning`). `COVERAGE`, which adds
answers and looks at nothing else, and `UNCONDITIONED`, the decoder alone, are special cases.
"""

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from math import isfinite, log

import numpy as np
from numpy.typing import NDArray

from jpr.decode.answers import UNCALIBRATED, AnswerCalibration, Evidence, Floats
from jpr.decode.search import Ask, Row, Rows
from jpr.errors import ConfigError
from jpr.types import Prefix

_FLOOR = 1e-3  # the share of R(c | prefix) itself, which decides when every answer was found
_MINIMUM = 1e-9  # the worth of a passage that adds nothing
_MOST_WORDS = 40  # a longer question counts as one of this length


@dataclass(frozen=True, slots=True)
class Conditioning:
    """The weights of P(next | prefix)."""

    relevance: float = 0.0
    """Of log R(c | prefix), the decoder's."""
    answers: float = 1.0
    """Of log W(c | prefix), the mass of the answers that a candidate adds."""
    answers_per_word: float = 0.0
    """What each word of the question adds to `answers`: long questions rarely ask for names."""
    repeats: float = 0.0
    """Of the share of a candidate's answers that the prefix contains."""
    first_stage: float = 0.0
    """Of the first stage's score, from 0 to 1 over the candidates."""
    first_stage_per_word: float = 0.0
    """What each word of the question adds to `first_stage`."""

    def __post_init__(self) -> None:
        if not all(map(isfinite, self.vector)):
            raise ConfigError(f"the weights of a conditioning must be finite: {self}")

    @property
    def vector(self) -> tuple[float, ...]:
        """The weights, in the order of `features`."""
        return astuple(self)

    def adjusted(self, trust: float, relevance: float) -> "Conditioning":
        """Return weights that trust the model less than 1, or its decoder more by `relevance`.

        With trust 0 nothing but the first stage counts.
        """
        return Conditioning(
            trust * (self.relevance + relevance),
            trust * self.answers,
            trust * self.answers_per_word,
            trust * self.repeats,
            self.first_stage,
            self.first_stage_per_word,
        )

    def log_probs(self, given: "Observed", prefix: Prefix, relevance: Row) -> Floats:
        """Return log P(c | prefix) (C,), given log R(c | prefix); −∞ for those of the prefix.

        >>> probs = np.array([[1, 0], [1, 0], [0, 1]], dtype=np.float32)
        >>> seen = Observed(Evidence(((7,), (9,)), probs, probs > 0))
        >>> given = np.log([0.5, 0.3, 0.2])
        >>> np.exp(COVERAGE.log_probs(seen, (), given)).round(2).tolist()  # two say the same
        [0.44, 0.44, 0.11]
        >>> after = np.array([-np.inf, np.log(0.6), np.log(0.4)])
        >>> np.exp(COVERAGE.log_probs(seen, (0,), after)).round(2).tolist()
        [0.0, 0.0, 1.0]
        >>> np.exp(UNCONDITIONED.log_probs(seen, (0,), after)).round(2).tolist()
        [0.0, 0.6, 0.4]
        """
        free = ~np.isneginf(relevance)  # NaN stays, for the search to reject
        free[list(prefix)] = False
        found = np.full(len(relevance), -np.inf)
        if free.any():
            logits = features(given, prefix, relevance)[free] @ np.array(self.vector)
            top = logits.max()
            found[free] = logits - top - np.log(np.exp(logits - top).sum())
        return found


COVERAGE = Conditioning()
"""By the answers that passages add, and nothing else."""
UNCONDITIONED = Conditioning(relevance=1.0, answers=0.0)
"""The decoder's own P(next | prefix)."""


@dataclass(frozen=True, slots=True, eq=False)
class Observed:
    """What is known of a question and its C candidates, beside R(c | prefix)."""

    evidence: Evidence
    first_stage: Floats | None = None
    """Scores (C,) from 0 to 1; None if there are none, or all are the same."""
    words: int = 0
    """Of the question."""


def scaled(scores: NDArray[np.floating]) -> Floats | None:
    """Return the scores of a first stage from 0 to 1; None if they say nothing.

    >>> scaled(np.array([7.0, 5.0, 3.0])).tolist()
    [1.0, 0.5, 0.0]
    >>> scaled(np.array([2.0, 2.0])) is None
    True
    """
    exact = scores.astype(np.float64)
    if not len(exact) or not np.isfinite(exact).all():
        return None
    width = exact.max() - exact.min()
    return (exact - exact.min()) / width if width > 0 else None


def features(given: Observed, prefix: Prefix, relevance: Row) -> Floats:
    """Return what the weights multiply (C, 6), given log R(c | prefix)."""
    share = np.exp(relevance.astype(np.float64))
    worth = given.evidence.worth(prefix, relevance) + _FLOOR * share
    adds = np.log(np.maximum(worth, np.finfo(np.float64).tiny))
    stage = np.zeros(len(share)) if given.first_stage is None else given.first_stage
    own = np.where(np.isneginf(relevance), 0.0, relevance)  # those of the prefix are left out
    words, repeated = min(given.words, _MOST_WORDS), given.evidence.repeated(prefix)
    return np.stack([own, adds, adds * words, repeated, stage, stage * words], axis=1)


class Conditioned:
    """P(next | prefix) of a model that reads answers; `observed` is by question.

    It asks the model again for what it asked before: wrap one that remembers.
    """

    def __init__(
        self,
        ask: Ask,
        observed: Sequence[Observed],
        conditioning: Conditioning = COVERAGE,
        calibration: AnswerCalibration = UNCALIBRATED,
    ) -> None:
        """Wrap a model's R(c | prefix)."""
        self._ask, self.observed = ask, observed
        self._conditioning, self._calibration = conditioning, calibration

    def __call__(self, pairs: Sequence[tuple[int, Prefix]]) -> Rows:
        """Return log P(next | prefix), a row for each (question, prefix)."""
        flat, log_probs = self._calibration.flat, self._conditioning.log_probs
        return [
            log_probs(self.observed[question], prefix, flat(row))
            for (question, prefix), row in zip(pairs, self._ask(pairs), strict=True)
        ]

    def overall(self, question: int) -> Floats:
        """Return P(a) (A,) before anything is chosen: the probability that each is right."""
        support = self.observed[question].evidence.support(self._relevance(question, ()))
        return self._calibration.probabilities(*support)

    def new_mass(self, question: int, prefix: Prefix) -> Floats:
        """Return the mass of answers (A,), 0 for those that the prefix contains."""
        return self.observed[question].evidence.new_mass(prefix, self._relevance(question, prefix))

    def worth(self, question: int, prefix: Prefix, passage: int) -> float:
        """Return log P that the next answer is one which a passage adds to a prefix.

        It is very small, not −∞, if the passage adds nothing.
        """
        contains = self.observed[question].evidence.contains[passage]
        return log(max(self.new_mass(question, prefix)[contains].sum(), _MINIMUM))

    def _relevance(self, question: int, prefix: Prefix) -> Floats:
        return self._calibration.flat(self._ask([(question, prefix)])[0])
