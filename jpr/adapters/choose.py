"""What the adapters share: documents of another library as candidates, and the choice from them."""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache

from jpr.errors import ConfigError, DataError
from jpr.rerank.joint import JointReranker
from jpr.stages import Reranker
from jpr.types import Hit, Passage, Question, Ranking

K = 5
"""Documents chosen by default, as in `jpr.Pipeline`."""
Document = tuple[str | None, Mapping[str, object], float | None]
"""Text, metadata and, where there is one, the score of the first stage."""
Chosen = tuple[int, float]
"""The position of a document in the input, and its score."""


def check_k(k: int) -> int:
    """Return k, which must be 1 or more."""
    if k < 1:
        raise ConfigError(f"k = {k}; it must be 1 or more")
    return k


def choose(
    reranker: Reranker | None, query: str, documents: Iterable[Document], k: int
) -> list[Chosen]:
    """Return k of the documents, best first; all if there are fewer."""
    hits = tuple(candidate(at, document) for at, document in enumerate(documents))
    return next(choose_many(reranker, [Ranking(Question("1", query), hits)], k))


def choose_many(
    reranker: Reranker | None, rankings: Iterable[Ranking], k: int
) -> Iterator[list[Chosen]]:
    """Yield k of the candidates of each query."""
    for found in or_default(reranker).rank_many(rankings, check_k(k)):
        yield [(int(hit.passage.id), float(hit.score)) for hit in found.hits]


def candidate(position: int, document: Document) -> Hit:
    """Return a document as a candidate.

    Its id is its position, so that a repeated document stays two. Its title is the metadata's
    `title`; without a score, it gets one that decreases with the position.
    """
    text, meta, score = document
    if not isinstance(text, str):
        raise DataError(f"document {position + 1} has no text; add it")
    title = meta.get("title")
    passage = Passage(str(position), title if isinstance(title, str) else "", text, meta)
    return Hit(passage, -float(position) if score is None else float(score))


def or_default(reranker: Reranker | None) -> Reranker:
    """Return the reranker or, without one, the bundled joint model."""
    return _bundled() if reranker is None else reranker


@cache
def _bundled() -> JointReranker:
    return JointReranker.load()
