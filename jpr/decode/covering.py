"""Passages chosen for the answers they add, whatever the search.

A model says how likely each candidate is to come next, P(c | prefix). Where it also says how likely
an answer is what a candidate tells, P(a | c), the next answer is a with

    P(a | prefix) = Σ_c P(c | prefix) · P(a | c),

and a candidate is worth the answers it contains, those that the prefix contains left out:

    P'(c | prefix) ∝ Σ_{a in c, in no passage of the prefix} P(a | prefix).

So an answer that many candidates tell counts for more, and one that was found counts no more. A
candidate may contain an answer and tell something else, though; P' · P(c | prefix)^λ prefers those
that tell.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log

import numpy as np
from numpy.typing import NDArray

from jpr.decode.search import Ask, Prefix, Rows

_FLOOR = 1e-3
"""The share of P(c | prefix) itself, which decides where every answer was found."""
_LEAST = 1e-9
"""What a passage is worth that adds nothing."""
_FLATTER = 1.5
"""What log P(c) is divided by for how likely answers are in all; tuned on development data."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """The answers that C candidates of a question may have, A in all."""

    answers: tuple[tuple[int, ...], ...]
    """The tokens of each."""
    says: NDArray[np.float32]
    """(C, A) how likely each is what a candidate tells, given that it tells one."""
    holds: NDArray[np.bool_]
    """(C, A) whether a candidate contains it."""

    def adds(self, prefix: Prefix, log_probs: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return how likely each answer (A,) is one that the prefix lacks, given log P (C,)."""
        found = self.holds[list(prefix)].any(axis=0)
        mass: NDArray[np.float64] = np.exp(log_probs.astype(np.float64)) @ self._says
        return np.where(found, 0.0, mass)

    def overall(self, log_probs: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return how likely each answer (A,) is in all, given log P (C,) before any is chosen.

        P is made flatter first: what decides which candidate comes first leaves too little to the
        other answers (docs/lab.md, "Which answers to give, and how many").
        """
        flat = log_probs.astype(np.float64) / _FLATTER
        top = flat.max(initial=-np.inf)
        return self.adds((), flat - top - np.log(np.exp(flat - top).sum()))

    def covering(
        self, prefix: Prefix, log_probs: NDArray[np.floating], relevance: float = 0.0
    ) -> NDArray[np.float64]:
        """Return log P' (C,), given log P (C,) after a prefix; `relevance` is λ.

        >>> says = np.array([[1, 0], [1, 0], [0, 1]], dtype=np.float32)
        >>> evidence = Evidence(((7,), (9,)), says, says > 0)
        >>> given = np.log([0.5, 0.3, 0.2])
        >>> np.exp(evidence.covering((), given)).round(2).tolist()  # the first two say the same
        [0.44, 0.44, 0.11]
        >>> after = np.array([-np.inf, np.log(0.6), np.log(0.4)])
        >>> np.exp(evidence.covering((0,), after)).round(2).tolist()
        [0.0, 0.0, 1.0]
        >>> np.exp(evidence.covering((), given, relevance=1.0)).round(2).tolist()
        [0.59, 0.35, 0.06]
        """
        return self.covered(prefix, log_probs, self.adds(prefix, log_probs), relevance)

    def covered(
        self,
        prefix: Prefix,
        log_probs: NDArray[np.floating],
        mass: NDArray[np.float64],
        relevance: float = 0.0,
    ) -> NDArray[np.float64]:
        """Return the same, given also what `adds` returns."""
        share = np.exp(log_probs.astype(np.float64))
        worth = self._holds @ mass + _FLOOR * share
        worth *= share**relevance
        worth[list(prefix)] = 0.0
        total = worth.sum() or 1.0  # nothing is left to choose, or nothing that is likely
        with np.errstate(divide="ignore"):
            found: NDArray[np.float64] = np.log(worth / total)
        return found

    @cached_property
    def _says(self) -> NDArray[np.float64]:
        return self.says.astype(np.float64)

    @cached_property
    def _holds(self) -> NDArray[np.float64]:
        return self.holds.astype(np.float64)


class Covering:
    """A model that is asked for passages which add answers; evidence is by question."""

    def __init__(self, ask: Ask, evidence: Sequence[Evidence], relevance: float = 0.0) -> None:
        """Take the model as it is, the answers of each question's candidates, and λ."""
        self._ask, self.evidence, self._relevance = ask, evidence, relevance
        self._masses: dict[tuple[int, Prefix], NDArray[np.float64]] = {}
        self._overall: dict[int, NDArray[np.float64]] = {}

    def __call__(self, wanted: Sequence[tuple[int, Prefix]]) -> Rows:
        """Return log P', a row for each (question, prefix)."""
        found = []
        for (question, prefix), row in zip(wanted, self._ask(wanted), strict=True):
            evidence = self.evidence[question]
            mass = self._masses[question, prefix] = evidence.adds(prefix, row)
            found.append(evidence.covered(prefix, row, mass, self._relevance))
        return found

    def mass(self, question: int, prefix: Prefix) -> NDArray[np.float64]:
        """Return P(a | prefix) of the answers (A,) that a prefix lacks, 0 of others."""
        if (question, prefix) not in self._masses:
            self([(question, prefix)])
        return self._masses[question, prefix]

    def overall(self, question: int) -> NDArray[np.float64]:
        """Return how likely the answers (A,) of a question are, whatever is chosen."""
        if question not in self._overall:
            (row,) = self._ask([(question, ())])
            self._overall[question] = self.evidence[question].overall(row)
        return self._overall[question]

    def worth(self, question: int, prefix: Prefix, passage: int) -> float:
        """Return log P that the next answer is one which a passage adds to a prefix.

        It is a very small number, not −∞, where the passage adds nothing.
        """
        added = self.mass(question, prefix)[self.evidence[question].holds[passage]].sum()
        return log(max(added, _LEAST))
