"""AnswerDotAI's rerankers: a ranker like those of its `Reranker(...)`, with its records."""

import asyncio
from collections.abc import Sequence
from copy import copy
from typing import Any, TypeAlias

from jpr.adapters.choose import choose
from jpr.errors import ConfigError, DataError, needs_extra
from jpr.stages import Reranker

with needs_extra("the adapter for rerankers", "rerankers"):
    from rerankers.documents import Document
    from rerankers.models.ranker import BaseRanker
    from rerankers.results import RankedResults, Result

Docs: TypeAlias = str | Document | Sequence[str] | Sequence[Document]
Ids = Sequence[str] | Sequence[int]
Metadata = Sequence[dict[str, Any]]


class JprRanker(BaseRanker):  # type: ignore[misc]  # the library is not typed
    """Ranks all documents; `top_k(k)` of its result is its choice of k."""

    def __init__(self, reranker: Reranker | None = None) -> None:
        """Rank with a reranker, by default the bundled joint model."""
        self._reranker = reranker

    def score(self, query: str, doc: str) -> float:
        """Raise ConfigError: the score of a document depends on the others."""
        raise ConfigError("a joint model does not score single documents; use rank")

    def rank(
        self, query: str, docs: Docs, doc_ids: Ids | None = None, metadata: Metadata | None = None
    ) -> RankedResults:
        """Return all documents, best first; ranks start at 1."""
        documents = _documents(docs, doc_ids, metadata)
        given = [(document.text, document.metadata, None) for document in documents]
        chosen = choose(self._reranker, query, given, max(len(given), 1))
        ranked = enumerate(chosen, start=1)
        results = [Result(documents[at], score, rank) for rank, (at, score) in ranked]
        return RankedResults(results, query, has_scores=True)

    async def rank_async(
        self, query: str, docs: Docs, doc_ids: Ids | None = None, metadata: Metadata | None = None
    ) -> RankedResults:
        """Do the same, in a thread."""
        return await asyncio.to_thread(self.rank, query, docs, doc_ids, metadata)


def _documents(docs: Docs, doc_ids: Ids | None, metadata: Metadata | None) -> list[Document]:
    """Return copies of documents, each with an id: the given one, its own or its position."""
    listed = [docs] if isinstance(docs, str | Document) else list(docs)
    for name, given in (("doc_ids", doc_ids), ("metadata", metadata)):
        if given is not None and len(given) != len(listed):
            raise DataError(f"{len(listed)} docs, but {len(given)} {name}; give one for each")
    made = [copy(doc) if isinstance(doc, Document) else Document(doc) for doc in listed]
    for at, document in enumerate(made):
        if doc_ids is not None:
            document.doc_id = doc_ids[at]
        elif document.doc_id is None:
            document.doc_id = at
        if metadata is not None:
            document.metadata = metadata[at]
    return made
