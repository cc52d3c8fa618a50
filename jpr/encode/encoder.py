"""The text encoder: token ids in batches of similar length through a tower."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from jpr.encode.tokenizer import EncoderTokenizer
from jpr.types import Passage

Vectors = NDArray[np.float32]


class TextTower(Protocol):
    """A model from token ids to vectors, on any device."""

    dimension: int
    budget: int  # tokens per batch, padding included, at which it is fastest

    def vectors(self, rows: Sequence[Sequence[int]]) -> Vectors:
        """Return one vector per row of token ids."""


class TextEncoder:
    """Questions and passages to vectors: a `jpr.stages.Encoder`."""

    def __init__(
        self,
        tokenizer: EncoderTokenizer,
        question: TextTower,
        passage: TextTower,
        key: str,
        folder: Path | None = None,
    ) -> None:
        """Combine a tokenizer and two towers, which may be the same; no `folder`: bundled."""
        self._tokenizer, self._question, self._passage = tokenizer, question, passage
        self.key, self.dimension, self.folder = key, passage.dimension, folder

    def encode_questions(self, texts: Sequence[str]) -> Vectors:
        """Return one vector per question, (n, dimension)."""
        return _encode(self._tokenizer.tokenize_questions(texts), self._question)

    def encode_passages(self, passages: Sequence[Passage]) -> Vectors:
        """Return one vector per passage, (n, dimension)."""
        return _encode(self._tokenizer.tokenize_passages(passages), self._passage)


def _encode(rows: Sequence[Sequence[int]], tower: TextTower) -> Vectors:
    vectors = np.empty((len(rows), tower.dimension), dtype=np.float32)
    for batch in batches([len(row) for row in rows], tower.budget):
        vectors[batch] = tower.vectors([rows[i] for i in batch])
    return vectors


def batches(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Group texts, longest first, into batches of at most `budget` tokens with padding.

    A batch lists the indices of its texts. A text longer than the budget is a batch alone.

    >>> list(batches([3, 9, 2, 4], budget=10))
    [[1], [3, 0], [2]]
    """
    batch: list[int] = []
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if batch and lengths[batch[0]] * (len(batch) + 1) > budget:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch
