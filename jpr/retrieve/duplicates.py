"""Near-duplicate removal: of two similar passages in a ranking, the better ranked stays.

Two texts are near-duplicates if the Jaccard coefficient of their sets of words, case-folded and
split at white space, is at least `threshold`. Titles do not count. A passage without text is never
a duplicate.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import ceil

from jpr.errors import ConfigError
from jpr.stages import Retriever
from jpr.types import Hit, Question, Ranking

THRESHOLD = 0.8


def distinct(hits: Iterable[Hit], threshold: float = THRESHOLD) -> Iterator[Hit]:
    """Yield, in order, the hits that are not near-duplicates of an earlier one.

    >>> from jpr.types import Passage
    >>> texts = ["The cat sat on the mat.", "the cat sat  on the mat.", "The dog barked."]
    >>> [hit.passage.id for hit in distinct(Hit(Passage(t[4:7], "", t), 0.0) for t in texts)]
    ['cat', 'dog']
    """
    _check(threshold)
    kept = _Kept(threshold)
    return (hit for hit in hits if kept.takes(hit.passage.text))


@dataclass(slots=True)
class _Kept:
    """The texts kept so far, with prefix filtering.

    Sets with a Jaccard coefficient of t or more share one of the first `size - ceil(t * size) + 1`
    words of each, in any fixed order of all words. So only those are looked up, in order of length,
    longest first, because long words are rare; words of one length are taken together.
    """

    threshold: float
    words: list[frozenset[str]] = field(default_factory=list)
    holders: dict[str, list[int]] = field(default_factory=dict)

    def takes(self, text: str) -> bool:
        """Keep a text and return True, unless it is a near-duplicate."""
        words = frozenset(text.casefold().split())
        if not words:
            return True
        n_prefix = len(words) - ceil(self.threshold * len(words)) + 1
        shortest = sorted(map(len, words))[-n_prefix]
        prefix = [word for word in words if len(word) >= shortest]
        similar = {other for word in prefix for other in self.holders.get(word, ())}
        if any(self._alike(words, self.words[other]) for other in similar):
            return False
        for word in prefix:
            self.holders.setdefault(word, []).append(len(self.words))
        self.words.append(words)
        return True

    def _alike(self, a: frozenset[str], b: frozenset[str]) -> bool:
        if min(len(a), len(b)) < self.threshold * max(len(a), len(b)):
            return False  # even if one contains the other
        shared = len(a & b)
        return shared >= self.threshold * (len(a) + len(b) - shared)


def _check(threshold: float) -> None:
    if not 0 < threshold <= 1:
        raise ConfigError(f"threshold of near-duplicates is {threshold}; it must be in (0, 1]")


class DistinctRetriever:
    """A retriever without near-duplicates in its rankings."""

    def __init__(self, retriever: Retriever, threshold: float = THRESHOLD) -> None:
        """Wrap a retriever, which is asked for more if passages are removed."""
        _check(threshold)
        self._retriever, self._threshold = retriever, threshold

    def retrieve(self, question: Question, k: int) -> Ranking:
        """Return the k best distinct passages, or all if there are fewer."""
        return self._fill(self._retriever.retrieve(question, _more(k)), k)

    def retrieve_many(self, questions: Iterable[Question], k: int) -> Iterator[Ranking]:
        """Do the same for many questions, in their order."""
        found = self._retriever.retrieve_many(questions, _more(k))
        return (self._fill(ranking, k) for ranking in found)

    def _fill(self, ranking: Ranking, k: int) -> Ranking:
        asked = _more(k)
        while True:
            kept = tuple(distinct(ranking.hits, self._threshold))
            if len(kept) >= k or len(ranking.hits) < asked:
                return Ranking(ranking.question, kept[:k])
            asked *= 2
            ranking = self._retriever.retrieve(ranking.question, asked)


def _more(k: int) -> int:
    """Return how many to ask for at first: usually few passages are removed."""
    return k + k // 10 + 1
