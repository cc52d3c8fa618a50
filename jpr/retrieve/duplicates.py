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
    if not 0 < threshold <= 1:
        raise ConfigError(f"threshold of near-duplicates is {threshold}; it must be in (0, 1]")
    sizes: list[int] = []
    texts_with: dict[str, list[int]] = {}  # an inverted index of the texts yielded so far

    def is_new(hit: Hit) -> bool:
        words = frozenset(hit.passage.text.casefold().split())
        shared = Counter(chain.from_iterable(texts_with.get(word, ()) for word in words))
        if any(n >= threshold * (len(words) + sizes[i] - n) for i, n in shared.items()):
            return False
        for word in words:
            texts_with.setdefault(word, []).append(len(sizes))
        sizes.append(len(words))
        return True

    return filter(is_new, hits)


class DistinctRetriever(Retriever):
    """A retriever without near-duplicates in its rankings."""

    def __init__(self, retriever: Retriever, threshold: float = THRESHOLD) -> None:
        """Wrap a retriever, which is asked for more if passages are removed."""
        distinct((), threshold)  # checks the threshold
        self._retriever, self._threshold = retriever, threshold
        # A retriever of one's own needs no key: its repr then equals no other.
        self.key = f"{getattr(retriever, 'key', repr(retriever))} distinct {threshold}"

    def retrieve_many(self, questions: Iterable[Question], k: int) -> Iterator[Ranking]:
        """Return the k best distinct passages for each question, or all if there are fewer."""
        first = k + k // 10 + 1  # usually few passages are removed
        for ranking in self._retriever.retrieve_many(questions, first):
            depth, kept = first, tuple(distinct(ranking.hits, self._threshold))
            while len(kept) < k and len(ranking.hits) >= depth:
                depth *= 2
                ranking = self._retriever.retrieve(ranking.question, depth)
                kept = tuple(distinct(ranking.hits, self._threshold))
            yield Ranking(ranking.question, kept[:k])
