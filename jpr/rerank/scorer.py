"""What a joint model does for a reranker, wherever it runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from jpr.decode import Ask
from jpr.rerank.evidence import Passages
from jpr.rerank.prompt import Prompted


@dataclass(frozen=True, slots=True)
class Asked:
    """The candidates of one question as a model takes them, in first-stage order."""

    prompted: Sequence[Prompted]
    numbers: Sequence[int]
    """The number that an index head knows each candidate by."""

    @property
    def prior(self) -> NDArray[np.float32]:
        """What the first stage thinks of each candidate, by its place."""
        return -np.log1p(np.arange(len(self.prompted), dtype=np.float32))


@dataclass(frozen=True, slots=True)
class Opened:
    """A model that has read the candidates of some questions; belongs to one thread."""

    ask: Ask
    """log P(next passage | prefix), a row for each (question, prefix)."""
    passages: Sequence[Passages] | None = None
    """Where answers may be, question by question; None of a model that does not read answers."""


class Scorer(Protocol):
    """A joint model that can be asked; threads may share it."""

    batch: int
    """How many questions it likes to be asked together."""
    ahead: int
    """For how many prefixes of a question it likes to be asked together."""
    numbers: int
    """How many numbers its index head has words for; 0 for a pointer, which needs none."""
    stays_open: bool
    """Whether it can still be asked of candidates after it has read others."""
    reads_answers: bool
    """Whether it says where answers are."""
    key: str
    """Names the weights."""

    def open(self, asked: Sequence[Asked]) -> Opened:
        """Read the candidates."""
