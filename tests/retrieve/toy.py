"""An encoder and passages for tests of indexes, invented."""

import random
import zlib
from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from jpr.types import Passage

WORDS = ["river", "mountain", "castle", "bridge", "forest", "harbour", "market", "tower"]


def passages(count: int, seed: int = 0) -> list[Passage]:
    """Passages of random words; the ids of two seeds differ."""
    chance = random.Random(seed)
    return [
        Passage(
            f"id {seed} {i}",
            f"{chance.choice(WORDS)} {i}",
            " ".join(chance.choices(WORDS, k=30)),
            {"half": i % 2, "source": f"s{i % 3}"},
        )
        for i in range(count)
    ]


@cache
def _direction(word: str, dimension: int) -> NDArray[np.float32]:
    chance = np.random.default_rng(zlib.crc32(word.encode(errors="surrogatepass")))
    return chance.normal(size=dimension).astype(np.float32)


class WordEncoder:
    """Gives each word a direction of its own and a text the sum of its words, of unit length."""

    key = "words"
    dimension = 24

    def encode_questions(self, texts: Sequence[str]) -> NDArray[np.float32]:
        vectors = np.zeros((len(texts), self.dimension), np.float32)
        for vector, text in zip(vectors, texts, strict=True):
            for word in text.split():
                vector += _direction(word, self.dimension)
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
        return vectors

    def encode_passages(self, passages: Sequence[Passage]) -> NDArray[np.float32]:
        return self.encode_questions([f"{passage.title} {passage.text}" for passage in passages])


class WideEncoder:
    """Gives each text random numbers of its own, thousands, so few passages fill a large file."""

    key = "wide"
    dimension = 4096

    def encode_questions(self, texts: Sequence[str]) -> NDArray[np.float32]:
        generators = (np.random.default_rng(zlib.crc32(text.encode())) for text in texts)
        rows = [one.normal(size=self.dimension).astype(np.float32) for one in generators]
        return np.stack(rows)

    def encode_passages(self, passages: Sequence[Passage]) -> NDArray[np.float32]:
        return self.encode_questions([passage.text for passage in passages])
