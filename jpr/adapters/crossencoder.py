"""sentence-transformers: the method `CrossEncoder.rank`, which is all that many programs call.

The library itself is not needed.
"""

from collections.abc import Sequence
from typing import NotRequired, TypedDict

from jpr.adapters.choose import choose
from jpr.stages import Reranker


class Ranked(TypedDict):
    """A document's position in the input, its score and, if requested, its text."""

    corpus_id: int
    score: float
    text: NotRequired[str]


class JprCrossEncoder:
    """Replaces a `CrossEncoder`."""

    def __init__(self, reranker: Reranker | None = None) -> None:
        """Rank with a reranker, by default the bundled joint model."""
        self._reranker = reranker

    def rank(
        self,
        query: str,
        documents: Sequence[str],
        top_k: int | None = None,
        return_documents: bool = False,
    ) -> list[Ranked]:
        """Return `top_k` of the documents, best first, by default all."""
        k = max(len(documents), 1) if top_k is None else top_k
        ranked: list[Ranked] = []
        for at, score in choose(self._reranker, query, [(text, {}, None) for text in documents], k):
            ranked.append({"corpus_id": at, "score": score})
            if return_documents:
                ranked[-1]["text"] = documents[at]
        return ranked
