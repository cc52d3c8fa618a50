"""What the adapters share: another library's documents as candidates, and the choice by place."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache

from jpr.errors import ConfigError, DataError
from jpr.rerank.joint import JointReranker
from jpr.stages import Reranker
from jpr.types import Hit, Passage, Question, Ranking

K = 5
"""Documents chosen unless it is said, as `jpr.Pipeline` has it."""
Chosen = tuple[int, float]
"""The place of a document among those given, and its score."""


def checked(k: int) -> int:
    """Refuse a k that has no meaning: there is no choice of none."""
    if k < 1:
        raise ConfigError(f"k = {k}; ask for at least one document")
    return k


def candidate(
    place: int, text: str | None, meta: Mapping[str, object], score: float | None = None
) -> Hit:
    """Put a document as a candidate.

    Its place is its id, so that a document twice is two. A title is what its metadata call so;
    without a score of its own, it has one that falls with its place.
    """
    if not isinstance(text, str):
        raise DataError(f"document {place + 1} has no text; give documents with their texts")
    title = meta.get("title")
    passage = Passage(str(place), title if isinstance(title, str) else "", text, meta)
    return Hit(passage, -float(place) if score is None else float(score))


def choose(reranker: Reranker | None, query: str, hits: Sequence[Hit], k: int) -> list[Chosen]:
    """Return k of the candidates, best first; all where there are fewer."""
    return next(choose_many(reranker, [Ranking(Question("1", query), tuple(hits))], k))


def choose_many(
    reranker: Reranker | None, rankings: Iterable[Ranking], k: int
) -> Iterator[list[Chosen]]:
    """Do the same for the candidates of many queries."""
    for found in or_default(reranker).rank_many(rankings, checked(k)):
        yield [(int(hit.passage.id), float(hit.score)) for hit in found.hits]


def or_default(reranker: Reranker | None) -> Reranker:
    """Return the reranker or, without one, the model that comes with the package."""
    return _default() if reranker is None else reranker


@cache
def _default() -> JointReranker:
    return JointReranker.load()
