"""Queries made of a passage's own words: names, codes, numbers and rare words to be matched.

An encoder that is trained on questions alone forgets what BM25 never does: a passage that holds the
words of a query. Each query is a run of words of a passage, or some of its rare words in any order,
sometimes with the title.
"""

import random
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_SPAN = (4, 16)
_WORDS = (2, 6)
_SPANS, _TITLED = 0.4, 0.3  # shares of queries


class KeywordQueries:
    """Makes queries from tokenized passages."""

    def __init__(
        self,
        ids: NDArray[np.uint16],
        lengths: NDArray[np.int64],
        titles: NDArray[np.int64],
        inner: Sequence[int],
    ) -> None:
        """Take passages end to end, how many tokens of each are title, and tokens inside words."""
        self._ids = ids
        self._ends = np.cumsum(lengths)
        self._starts = self._ends - lengths
        self._titles = titles
        counts = np.bincount(ids[: self._ends[-1]], minlength=2**16)
        self._rarity = np.log(counts.sum() / np.maximum(counts, 1))
        self._is_inner = np.zeros(2**16, dtype=bool)
        self._is_inner[list(inner)] = True

    def __len__(self) -> int:
        return len(self._starts)

    def sample(self, row: int, chance: random.Random) -> list[int]:
        """Return the tokens of a query for a passage."""
        start, end, before = self._starts[row], self._ends[row], self._titles[row]
        title: list[int] = self._ids[start : start + before].tolist()
        words = self._words(self._ids[start + before : end])
        if not words:
            return title
        if chance.random() < _SPANS:
            n = chance.randint(*_SPAN)
            first = chance.randrange(max(1, len(words) - n))
            chosen = words[first : first + n]
        else:
            chosen = self._rare(words, chance)
        tokens = [token for word in chosen for token in word]
        return title + tokens if chance.random() < _TITLED else tokens

    def _words(self, ids: NDArray[np.uint16]) -> list[list[int]]:
        firsts = np.flatnonzero(~self._is_inner[ids]).tolist()
        bounds = zip(firsts, [*firsts[1:], len(ids)], strict=True)
        return [ids[first:last].tolist() for first, last in bounds]

    def _rare(self, words: list[list[int]], chance: random.Random) -> list[list[int]]:
        """Sample different words, rarer ones more often."""
        weights = [max(self._rarity[word].max() - 7.0, 0.01) ** 2 for word in words]
        drawn = chance.choices(words, weights, k=2 * chance.randint(*_WORDS))
        different = list({tuple(word): word for word in drawn}.values())
        return different[: max(2, len(drawn) // 2)]
