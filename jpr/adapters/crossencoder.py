"""sentence-transformers: the method `CrossEncoder.rank`, which is all that many programs call.

The library itself is not needed.
"""

from collections.abc import Sequence
from typing import NotRequired, TypedDict

from jpr.adapters.choose import candidate, choose
from jpr.stages import Reranker


class Ranked(TypedDict):
    """A document's place among those given, its score and, where wanted, its text."""

    corpus_id: int
    score: float
    text: NotRequired[str]


class JprCrossEncoder:
    """Takes the place of a `CrossEncoder`."""

    def __init__(self, reranker: Reranker | None = None) -> None:
        """Rank by a reranker; without one, by the joint model that comes with the package."""
        self._reranker = reranker

    def rank(
        self,
        query: str,
        documents: Sequence[str],
        top_k: int | None = None,
        return_documents: bool = False,
    ) -> list[Ranked]:
        """Return `top_k` of the documents, best first; all where there are fewer or none is said.

        Their texts come along only where `return_documents` is true.
        """
        hits = [candidate(place, text, {}) for place, text in enumerate(documents)]
        k = max(len(hits), 1) if top_k is None else top_k
        chosen = choose(self._reranker, query, hits, k)
        if not return_documents:
            return [{"corpus_id": place, "score": score} for place, score in chosen]
        return [
            {"corpus_id": place, "score": score, "text": documents[place]}
            for place, score in chosen
        ]
