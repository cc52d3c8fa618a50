"""Near-identical passages out of a ranking: of two, the better ranked stays.

Two texts are near-identical when at least `threshold` of the words of either are words of both:
the Jaccard coefficient of their sets of case-folded words, split at white space. Titles do not
count, nor does how often or where a word comes. A passage without text is like no other.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import ceil

from jpr.errors import ConfigError
from jpr.stages import Retriever
from jpr.types import Hit, Question, Ranking

THRESHOLD = 0.8


def distinct(hits: Iterable[Hit], threshold: float = THRESHOLD) -> Iterator[Hit]:
    """Pass on, in their order, the hits that are near-identical to none passed on before.

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
    """The texts kept so far.

    Two sets with a Jaccard coefficient of t share at least t of the words of either: so they
    share one of the first `size - ceil(t * size) + 1` words of each, whatever order the words of
    all texts are brought into. Only those are looked up, the longest first, because long words are
    rare; all of one length are taken together.
    """

    threshold: float
    words: list[frozenset[str]] = field(default_factory=list)
    holders: dict[str, list[int]] = field(default_factory=dict)

    def takes(self, text: str) -> bool:
        """Keep a text unless it is near-identical to one that was kept."""
        words = frozenset(text.casefold().split())
        if not words:
            return True
        n_telling = len(words) - ceil(self.threshold * len(words)) + 1
        shortest = sorted(map(len, words))[-n_telling]
        telling = [word for word in words if len(word) >= shortest]
        rivals = {rival for word in telling for rival in self.holders.get(word, ())}
        if any(self._alike(words, self.words[rival]) for rival in rivals):
            return False
        for word in telling:
            self.holders.setdefault(word, []).append(len(self.words))
        self.words.append(words)
        return True

    def _alike(self, a: frozenset[str], b: frozenset[str]) -> bool:
        if min(len(a), len(b)) < self.threshold * max(len(a), len(b)):
            return False  # even if one holds the other
        shared = len(a & b)
        return shared >= self.threshold * (len(a) + len(b) - shared)


def _check(threshold: float) -> None:
    if not 0 < threshold <= 1:
        raise ConfigError(f"threshold of near-identical passages: {threshold} is not in (0, 1]")


class DistinctRetriever:
    """Any retriever, without near-identical passages in its rankings."""

    def __init__(self, retriever: Retriever, threshold: float = THRESHOLD) -> None:
        """Ask `retriever` for more where passages fall away."""
        _check(threshold)
        self._retriever, self._threshold = retriever, threshold

    def retrieve(self, question: Question, k: int) -> Ranking:
        """Return the k best distinct passages, or all where there are fewer."""
        return self._enough(self._retriever.retrieve(question, _more(k)), k)

    def retrieve_many(self, questions: Iterable[Question], k: int) -> Iterator[Ranking]:
        """Do the same for many questions, in their order."""
        found = self._retriever.retrieve_many(questions, _more(k))
        return (self._enough(ranking, k) for ranking in found)

    def _enough(self, ranking: Ranking, k: int) -> Ranking:
        asked = _more(k)
        while True:
            kept = tuple(distinct(ranking.hits, self._threshold))
            if len(kept) >= k or len(ranking.hits) < asked:
                return Ranking(ranking.question, kept[:k])
            asked *= 2
            ranking = self._retriever.retrieve(ranking.question, asked)


def _more(k: int) -> int:
    """Return how many to ask for at first: few passages fall away as a rule."""
    return k + k // 10 + 1
