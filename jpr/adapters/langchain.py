"""LangChain: a document compressor and a retriever.

Both put the score into a document's metadata as `relevance_score`, as LangChain's own rerankers do.
Their base classes run them asynchronously in a thread.
"""

from collections.abc import Sequence
from typing import Annotated

from jpr.adapters.choose import K, check_k, choose, or_default
from jpr.errors import ConfigError, needs_extra
from jpr.pipeline import Pipeline
from jpr.stages import Reranker, Retriever
from jpr.types import Question

with needs_extra("the adapter for LangChain", "langchain"):
    from langchain_core.callbacks import CallbackManagerForRetrieverRun, Callbacks
    from langchain_core.documents import BaseDocumentCompressor, Document
    from langchain_core.retrievers import BaseRetriever
    from pydantic import AfterValidator, ConfigDict, SkipValidation, model_validator

SCORE = "relevance_score"
TopN = Annotated[int, AfterValidator(check_k)]


class JprCompressor(BaseDocumentCompressor):
    """Keeps the documents of a query that together cover the most answers."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    reranker: SkipValidation[Reranker] | None = None
    """By default the bundled joint model, loaded at the first query."""
    top_n: TopN = K

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        """Return `top_n` of the documents, best first; all if there are fewer."""
        given = [(document.page_content, document.metadata, None) for document in documents]
        return [
            documents[at].model_copy(update={"metadata": {**documents[at].metadata, SCORE: score}})
            for at, score in choose(self.reranker, query, given, self.top_n)
        ]


class JprRetriever(BaseRetriever):
    """Retrieves candidates, and keeps those that together cover the most answers."""

    retriever: SkipValidation[Retriever]
    reranker: SkipValidation[Reranker] | None = None
    """By default the bundled joint model, loaded at the first query."""
    top_n: TopN = K
    candidates: int = 100
    """Passages to choose from."""

    @model_validator(mode="after")
    def _has_enough_candidates(self) -> "JprRetriever":
        if self.candidates < self.top_n:
            given = f"top_n = {self.top_n}, candidates = {self.candidates}"
            raise ConfigError(f"{given}; lower top_n or raise candidates")
        return self

    @classmethod
    def from_pipeline(cls, pipeline: Pipeline) -> "JprRetriever":
        """Return the first two stages of a pipeline, without its reader."""
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
        chosen = or_default(self.reranker).rank(question, found.hits, self.top_n)
        return [
            Document(
                id=hit.passage.id,
                page_content=hit.passage.text,
                metadata={**hit.passage.meta, "title": hit.passage.title, SCORE: hit.score},
            )
            for hit in chosen.hits
        ]
