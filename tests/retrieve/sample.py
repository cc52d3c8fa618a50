"""A corpus small enough to know by heart, an encoder for it, and what exact search finds in it."""

import random
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from jpr.types import Passage, Question
from tests.retrieve import toy

PASSAGES = [
    Passage("a 1", "Castle", "an old castle by the river", {"source": "guide", "year": 1999}),
    Passage("b", "Bridge", "a stone bridge over the river", {"source": "guide", "year": 2001}),
    Passage("c", "Tower", "the castle tower fell", {"source": "news", "tags": ["ruin", "old"]}),
    Passage("d", "Harbour", "ships in the harbour", {"source": 'x" or 1==1 or "'}),
    Passage("é", "Market", "the market sells fish from the harbour", {"source": "back\\slash"}),
    Passage("f", "", "nothing of note"),
]


class WordEncoder(toy.WordEncoder):
    """Counts the passages it is given."""

    def __init__(self, key: str = "words") -> None:
        self.key, self.encoded = key, 0

    def encode_passages(self, passages: Sequence[Passage]) -> NDArray[np.float32]:
        self.encoded += len(passages)
        return super().encode_passages(passages)


def random_passages(count: int, seed: int = 0) -> list[Passage]:
    """Return passages of random words, whose ids differ from those of another seed."""
    chance, words = random.Random(seed), [f"word{i}" for i in range(200)]
    return [Passage(f"{seed}-{i}", "", " ".join(chance.choices(words, k=12))) for i in range(count)]


def exact(
    passages: Sequence[Passage], questions: Sequence[Question], k: int
) -> list[list[tuple[str, float]]]:
    """Return (id, score) of each question's k nearest passages, comparing all; equal ones by id."""
    encoder = WordEncoder()
    vectors = encoder.encode_questions([question.text for question in questions])
    scores = (vectors @ encoder.encode_passages(passages).T).round(6).tolist()
    ids = [passage.id for passage in passages]
    ranked = (sorted(zip(ids, row, strict=True), key=lambda p: (-p[1], p[0])) for row in scores)
    return [ranking[:k] for ranking in ranked]
