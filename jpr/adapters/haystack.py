"""Haystack: a ranker component. Asynchronous pipelines run it in a thread."""

from dataclasses import replace

from jpr.adapters.choose import K, check_k, choose, or_default
from jpr.errors import needs_extra
from jpr.stages import Reranker

with needs_extra("the adapter for Haystack", "haystack"):
    from haystack import Document, component


@component
class JprRanker:
    """Keeps the documents of a query that together cover the most answers."""

    def __init__(self, reranker: Reranker | None = None, top_k: int = K) -> None:
        """Choose with a reranker, by default the bundled joint model."""
        self.reranker, self.top_k = reranker, check_k(top_k)

    def warm_up(self) -> None:
        """Load the model before the first query."""
        or_default(self.reranker)

    @component.output_types(documents=list[Document])
    def run(
        self, query: str, documents: list[Document], top_k: int | None = None
    ) -> dict[str, list[Document]]:
        """Return `top_k` of the documents, by default the component's, best first."""
        given = [(document.content, document.meta, document.score) for document in documents]
        chosen = choose(self.reranker, query, given, self.top_k if top_k is None else top_k)
        return {"documents": [replace(documents[at], score=score) for at, score in chosen]}
