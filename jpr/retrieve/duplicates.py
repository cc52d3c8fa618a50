"""Near-duplicate removal: of two similar passages in a ranking, the better ranked stays.

Two texts are near-duplicates if the Jaccard coefficient of their sets of words, case-folded and
split at white space, is at least `threshold`. Titles do not count. A passage without text is never
a duplicate.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain

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
    return _distinct(hits, threshold)


def _distinct(hits: Iterable[Hit], threshold: float) -> Iterator[Hit]:
    sizes: list[int] = []
    texts_with: dict[str, list[int]] = {}  # an inverted index of the texts yielded so far
    for hit in hits:
        words = frozenset(hit.passage.text.casefold().split())
        shared = Counter(chain.from_iterable(texts_with.get(word, ()) for word in words))
        if any(n >= threshold * (len(words) + sizes[i] - n) for i, n in shared.items()):
            continue
        for word in words:
            texts_with.setdefault(word, []).append(len(sizes))
        sizes.append(len(words))
        yield hit


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
