"""The first-stage order, and what all rerankers share."""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from math import inf, nextafter

from jpr.errors import ConfigError
from jpr.rerank.methods import NoSettings, RerankOptions
from jpr.stages import Reranker
from jpr.types import Hit, Question, Ranking

Choice = tuple[int, float]  # the position of a chosen candidate, and its score


class FirstStageOrder(Reranker):
    """The first k candidates with their first-stage scores: the baseline of rerankers."""

    key = "first stage"

    def rank_many(self, rankings: Iterable[Ranking], k: int) -> Iterator[Ranking]:
        """Return the first k candidates of each question."""
        checked(k)
        return (ranking.top(k) for ranking in rankings)


def make(_: NoSettings, __: RerankOptions) -> FirstStageOrder:
    """Return the reranker."""
    return FirstStageOrder()


def checked(k: int) -> int:
    """Return k, which must not be negative."""
    if k < 0:
        raise ConfigError(f"k = {k}; k must be 0 or more")
    return k


def ranked(question: Question, candidates: Sequence[Hit], chosen: Iterable[Choice]) -> Ranking:
    """Return the chosen candidates in the order in which they were chosen.

    Programs sort runs by score and break ties differently. So a score that is not below the
    previous one is lowered to the next smaller number.

    >>> from jpr.types import Passage
    >>> hits = [Hit(Passage(id, "", id), 0.0) for id in ("a", "b", "c")]
    >>> found = ranked(Question("q", "?"), hits, [(2, 1.5), (0, 1.5), (1, -4.0)]).hits
    >>> [hit.passage.id for hit in found], [round(hit.score, 9) for hit in found]
    (['c', 'a', 'b'], [1.5, 1.5, -4.0])
    """
    hits: list[Hit] = []
    below = inf
    for place, score in chosen:
        below = min(score, nextafter(below, -inf))
        hits.append(Hit(candidates[place].passage, below))
    return Ranking(question, tuple(hits))


def warn_if_cut(is_truncated: bool) -> None:
    """Warn that not everything was read, for results that cannot say so themselves."""
    if is_truncated:
        problem = "some passages or questions are longer than the model reads, and were cut"
        warnings.warn(f"{problem}; split them (jpr index --split)", stacklevel=3)
