"""What the adapters share: documents of another library as candidates, and the choice from them."""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache

from jpr.errors import ConfigError, DataError
from jpr.rerank.joint import JointReranker
from jpr.stages import Reranker
from jpr.types import Hit, Passage, Question, Ranking

K = 5  # documents chosen by default, as in `jpr.Pipeline`
Document = tuple[str | None, Mapping[str, object], float | None]
"""Text, metadata and, where there is one, the score of the first stage."""


def check_k(k: int) -> int:
    """Return k, which must be 1 or more."""
    if k < 1:
        raise ConfigError(f"k = {k}; it must be 1 or more")
    return k


def choose(
    reranker: Reranker | None, query: str, documents: Iterable[Document], k: int
) -> list[tuple[int, float]]:
    """Return the positions and scores of k of the documents, best first; all if there are fewer."""
    return list(choose_many(reranker, [ranking("1", query, enumerate(documents))], k))


def choose_many(
    reranker: Reranker | None, rankings: Iterable[Ranking], k: int
) -> Iterator[tuple[int, float]]:
    """Do the same for the documents of each query, one query after another."""
    for found in or_default(reranker).rank_many(rankings, check_k(k)):
        yield from ((int(hit.passage.id), float(hit.score)) for hit in found.hits)


def ranking(id: str, query: str, documents: Iterable[tuple[int, Document]]) -> Ranking:
    """Return documents with their positions as candidates.

    The id of a candidate is its position, so that a repeated document stays two. Its title is the
    metadata's `title`; without a score it has 0.
    """
    hits = []
    for position, (text, meta, score) in documents:
        if not isinstance(text, str):
            raise DataError(f"document {position + 1} has no text; add it")
        title = meta.get("title")
        passage = Passage(str(position), title if isinstance(title, str) else "", text, meta)
        hits.append(Hit(passage, 0.0 if score is None else float(score)))
    return Ranking(Question(id, query), tuple(hits))


def or_default(reranker: Reranker | None) -> Reranker:
    """Return the reranker or, without one, the bundled joint model."""
    return _bundled() if reranker is None else reranker


@cache
def _bundled() -> JointReranker:
    return JointReranker.load()
