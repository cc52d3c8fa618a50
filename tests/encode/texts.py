"""Passages of words that the tiny encoders know; without torch, for processes of their own."""

import random

from jpr.types import Passage

WORDS = [
    *("river", "mountain", "castle", "bridge", "forest", "harbour", "market", "tower"),
    *("where", "is", "the", "old", "query", "passage"),
]


def passages(count: int, seed: int = 0) -> list[Passage]:
    """The first `count` passages of an endless corpus."""
    chance = random.Random(seed)

    def some(most: int) -> str:
        return " ".join(chance.choices(WORDS, k=chance.randint(0, most)))

    return [Passage(str(i), some(2), some(40)) for i in range(count)]
