"""Haystack: a ranker component. Asynchronous pipelines run it in a thread."""

from dataclasses import replace

from jpr.adapters.choose import K, candidate, checked, choose, or_default
from jpr.errors import MissingExtraError
from jpr.stages import Reranker

try:
    from haystack import Document, component
except ImportError as error:
    raise MissingExtraError("the adapter for Haystack", "haystack") from error


@component
class JprRanker:
    """Keeps, of the documents found for a query, those that together hold the most answers."""

    def __init__(self, reranker: Reranker | None = None, top_k: int = K) -> None:
        """Choose by a reranker; without one, by the joint model that comes with the package."""
        self.reranker, self.top_k = reranker, checked(top_k)

    def warm_up(self) -> None:
        """Open the model before the first query."""
        or_default(self.reranker)

    @component.output_types(documents=list[Document])
    def run(
        self, query: str, documents: list[Document], top_k: int | None = None
    ) -> dict[str, list[Document]]:
        """Return `top_k` of the documents, best first, as `documents`; all where there are fewer.

        Without a `top_k`, the component's own holds.
        """
        hits = [
            candidate(place, document.content, document.meta, document.score)
            for place, document in enumerate(documents)
        ]
        chosen = choose(self.reranker, query, hits, self.top_k if top_k is None else top_k)
        return {"documents": [replace(documents[place], score=score) for place, score in chosen]}
