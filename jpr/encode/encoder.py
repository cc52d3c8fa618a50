"""An encoder of texts: tokens in batches of like length through a tower."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from jpr.encode.batches import batches
from jpr.encode.tokenizer import EncoderTokenizer
from jpr.types import Passage

Vectors = NDArray[np.float32]


class Tower(Protocol):
    """Turns token ids into vectors, wherever it runs."""

    dimension: int
    budget: int
    """How many tokens it takes at a time, padding included, to be fastest."""

    def vectors(self, rows: Sequence[Sequence[int]]) -> Vectors:
        """Return one vector per row of token ids."""


class TextEncoder:
    """Questions and passages to vectors, behind `jpr.stages.Encoder`."""

    def __init__(self, tokens: EncoderTokenizer, question: Tower, passage: Tower, key: str) -> None:
        """Put together an encoder; the towers may be one and the same."""
        self._tokens, self._question, self._passage = tokens, question, passage
        self.key, self.dimension = key, passage.dimension

    def encode_questions(self, texts: Sequence[str]) -> Vectors:
        """Return one vector per question, (n, dimension)."""
        return _in_batches(self._tokens.tokenize_questions(texts), self._question)

    def encode_passages(self, passages: Sequence[Passage]) -> Vectors:
        """Return one vector per passage, (n, dimension)."""
        return _in_batches(self._tokens.tokenize_passages(passages), self._passage)


def _in_batches(rows: Sequence[Sequence[int]], tower: Tower) -> Vectors:
    found = np.empty((len(rows), tower.dimension), dtype=np.float32)
    for places in batches([len(row) for row in rows], tower.budget):
        found[places] = tower.vectors([rows[place] for place in places])
    return found
