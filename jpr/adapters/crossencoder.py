"""sentence-transformers: the method `CrossEncoder.rank`, which is all that many programs call.

The library itself is not needed.
"""

from collections.abc import Sequence
from typing import Any

from jpr.adapters.choose import choose
from jpr.stages import Reranker


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
    ) -> list[dict[str, Any]]:
        """Return `top_k` of the documents, best first, by default all.

        Each is a document's position in the input, its score and, if requested, its text.
        """
        k = max(len(documents), 1) if top_k is None else top_k
        chosen = choose(self._reranker, query, [(text, {}, None) for text in documents], k)
        ranked: list[dict[str, Any]] = [{"corpus_id": at, "score": score} for at, score in chosen]
        if return_documents:
            for each in ranked:
                each["text"] = documents[each["corpus_id"]]
        return ranked
