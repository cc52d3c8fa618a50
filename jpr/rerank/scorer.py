"""What a joint model does for a reranker, wherever it runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from jpr.decode import Prefix, Rows
from jpr.rerank.prompt import Prompted

ENCODER, STEP = "encoder.onnx", "step.onnx"
"""The files of a model that runs without torch."""
NextLogProbs = Callable[[Sequence[tuple[int, Prefix]]], Rows]
"""log P(next passage | prefix), a row for each (question, prefix)."""


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


class Scorer(Protocol):
    """A joint model that can be asked; threads may share it."""

    batch: int
    """How many questions it likes to be asked together."""
    ahead: int
    """For how many prefixes of a question it likes to be asked together."""
    numbers: int
    """How many numbers its index head has words for; 0 for a pointer, which needs none."""
    key: str
    """Names the weights."""

    def open(self, asked: Sequence[Asked]) -> NextLogProbs:
        """Read the candidates; what is returned belongs to one thread."""
