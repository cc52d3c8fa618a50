"""LangChain: a document compressor and a retriever.

Both put the score into a document's metadata, as `relevance_score`, where LangChain's own rerankers
have it. Both are asynchronous as their base classes are: in a thread.
"""

from collections.abc import Sequence
from typing import Annotated

from jpr.adapters.choose import K, candidate, checked, choose, or_default
from jpr.errors import ConfigError, MissingExtraError
from jpr.pipeline import Pipeline
from jpr.stages import Reranker, Retriever
from jpr.types import Hit, Question

try:
    from langchain_core.callbacks import CallbackManagerForRetrieverRun, Callbacks
    from langchain_core.documents import BaseDocumentCompressor, Document
    from langchain_core.retrievers import BaseRetriever
    from pydantic import AfterValidator, ConfigDict, SkipValidation, model_validator
except ImportError as error:
    raise MissingExtraError("the adapter for LangChain", "langchain") from error

SCORE = "relevance_score"

TopN = Annotated[int, AfterValidator(checked)]


class JprCompressor(BaseDocumentCompressor):
    """Keeps, of the documents found for a query, those that together hold the most answers."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    reranker: SkipValidation[Reranker] | None = None
    """Without one, the joint model that comes with the package, opened at the first query."""
    top_n: TopN = K

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        """Return `top_n` of the documents, best first; all where there are fewer."""
        hits = [
            candidate(place, document.page_content, document.metadata)
            for place, document in enumerate(documents)
        ]
        return [
            documents[place].model_copy(
                update={"metadata": {**documents[place].metadata, SCORE: score}}
            )
            for place, score in choose(self.reranker, query, hits, self.top_n)
        ]


class JprRetriever(BaseRetriever):
    """Finds candidates in an index, and keeps those that together hold the most answers."""

    retriever: SkipValidation[Retriever]
    reranker: SkipValidation[Reranker] | None = None
    """Without one, the joint model that comes with the package, opened at the first query."""
    top_n: TopN = K
    candidates: int = 100
    """Passages chosen from."""

    @model_validator(mode="after")
    def _has_enough_candidates(self) -> "JprRetriever":
        if self.candidates < self.top_n:
            told = f"top_n = {self.top_n} of {self.candidates} candidates"
            raise ConfigError(f"{told}; choose no more than there are")
        return self

    @classmethod
    def from_pipeline(cls, pipeline: Pipeline) -> "JprRetriever":
        """Return the first two stages of a pipeline; what its reader would say is not asked."""
        return cls(
            retriever=pipeline.retriever,
            reranker=pipeline.reranker,
            top_n=pipeline.k,
            candidates=pipeline.candidates,
        )

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        question = Question("1", query)
        found = self.retriever.retrieve(question, self.candidates)
        ranking = or_default(self.reranker).rank(question, found.hits, self.top_n)
        return [_document(hit) for hit in ranking.hits]


def _document(hit: Hit) -> Document:
    passage = hit.passage
    metadata = {**passage.meta, "title": passage.title, SCORE: hit.score}
    return Document(id=passage.id, page_content=passage.text, metadata=metadata)
