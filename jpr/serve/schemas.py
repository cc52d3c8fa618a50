"""Requests and responses as JSON: those of Cohere's and Jina's clients, and our own.

The `job` of a request is its work, after a check of the service's limits.

Fields of other clients that have no meaning here are ignored: `model`, as there is one;
`max_tokens_per_doc` and `max_chunks_per_doc`, as the model's windows are fixed; `priority`.
"""

from collections.abc import Sequence
from itertools import islice
from math import exp
from typing import Annotated, Literal, NotRequired
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, FailFast, Field
from starlette.exceptions import HTTPException
from typing_extensions import TypedDict  # pydantic takes typing's only from Python 3.12

from jpr.serve.engine import AskJob, DecodeOptions, RerankJob, RerankResult, SearchJob
from jpr.serve.service import Service
from jpr.types import INDEPENDENT, Answer, Hit, Passage, Question, Ranking

Decoder = Literal["tree", "sets", "seq", "beam", "independent"]
Beta = Annotated[float, Field(ge=-20, le=20)]
Document = str | dict[str, object]


class _StrictModel(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class AskRequest(_StrictModel):
    """A question."""

    question: str = Field(min_length=1)
    k: int | None = Field(None, ge=1, description="Passages to choose.")
    beta: Beta | None = Field(
        None, description="Length penalty: larger is wider; without `decode`, implies a tree."
    )
    decode: Decoder | None = None
    corpus: str | None = Field(
        None, description="Id from POST /v1/corpora; by default the service's own corpus."
    )
    compare: bool = Field(False, description="Also return the passages ranked independently.")

    def job(self, service: Service) -> AskJob:
        """Return the question as a job."""
        _check_size(len(self.question), "characters", service.limits.characters)
        pipeline = service.pipeline(self.corpus)
        _check_k(self.k or 1, pipeline.candidates)
        ways = DecodeOptions(self.k, self.decode, self.beta), DecodeOptions(self.k, INDEPENDENT)
        return AskJob(pipeline, self.corpus or "", self.question, ways[: 1 + self.compare])


class SearchRequest(_StrictModel):
    """A query to the first stage."""

    query: str = Field(min_length=1)
    k: int = Field(10, ge=1)
    corpus: str | None = None

    def job(self, service: Service) -> SearchJob:
        """Return the query as a job."""
        _check_size(len(self.query), "characters", service.limits.characters)
        _check_k(self.k, service.limits.passages)
        return SearchJob(service.pipeline(self.corpus), self.query, self.k)


class RelevantSpans(BaseModel):
    """Whether to return where the answers are in documents."""

    mode: Literal["enabled", "disabled"] = "disabled"
    threshold: float = 0.1
    max_spans: int | None = Field(default=None, ge=1)


class RerankedDocument(TypedDict):
    """A chosen document."""

    index: Annotated[int, Field(description="Its position in the request, from 0.")]
    relevance_score: Annotated[
        float, Field(description="Decreases from each to the next; see docs/serve.md.")
    ]
    truncated: Annotated[
        bool, Field(description="Whether the model read less than the query and all of it.")
    ]
    document: NotRequired[dict[str, object]]
    relevant_spans: NotRequired[list[dict[str, float]]]


class RerankResponse(TypedDict):
    """Documents in the order in which they were chosen, and the search tree."""

    id: str
    object: Literal["list"]
    model: str
    results: list[RerankedDocument]
    meta: dict[str, object]
    usage: dict[str, int]
    tree: Annotated[dict[str, object], Field(description="The search; documents by their indexes.")]


class RerankRequest(BaseModel):
    """Documents to choose from, in the format of Cohere and Jina; `decode` and `beta` are ours."""

    query: str = Field(min_length=1)
    documents: Annotated[list[Document], FailFast(), Field(min_length=1)]
    top_n: int | None = Field(None, ge=1)
    return_documents: bool | None = None
    rank_fields: Annotated[list[str], Field(min_length=1, max_length=32)] | None = None
    relevant_spans: RelevantSpans = RelevantSpans()
    decode: Decoder | None = None
    beta: Beta | None = None

    def job(self, service: Service) -> RerankJob:
        """Return the documents as candidates, each with its position as its id."""
        _check_size(len(self.documents), "documents", service.limits.passages)
        if len(set(self.rank_fields or ())) < len(self.rank_fields or ()):
            raise HTTPException(422, "rank_fields: a field is repeated; name each once")
        passages = [self._passage(at, document) for at, document in enumerate(self.documents)]
        texts = sum(len(passage.title) + len(passage.text) for passage in passages)
        _check_size(len(self.query) + texts, "characters", service.limits.characters)
        hits = tuple(Hit(passage, 0.0) for passage in passages)  # no scores of a first stage
        ranking = Ranking(Question("1", self.query), hits)
        return RerankJob(ranking, DecodeOptions(self.top_n, self.decode, self.beta))

    def _passage(self, at: int, document: Document) -> Passage:
        if isinstance(document, str):
            return Passage(str(at), "", document)
        fields = self.rank_fields or ["text"]
        missing = next((name for name in fields if name not in document), None)
        if missing is not None:
            raise HTTPException(422, f"documents.{at}: no field {missing!r}; add it")
        title = "" if "title" in fields else document.get("title", "")
        return Passage(str(at), _text(title), "\n".join(_text(document[name]) for name in fields))

    def response(self, found: RerankResult, version: int, model: str) -> RerankResponse:
        """Return the response; Jina's (version 1) has documents by default."""
        is_default = self.return_documents is None
        with_documents = version == 1 if is_default else self.return_documents
        results: list[RerankedDocument] = []
        for at, score in found.order:
            result: RerankedDocument = {
                "index": at,
                "relevance_score": score,
                "truncated": at in found.truncated,
            }
            if with_documents:
                document = self.documents[at]
                result["document"] = {"text": document} if isinstance(document, str) else document
            if self.relevant_spans.mode == "enabled":
                result["relevant_spans"] = self._spans(str(at), found.answers)
            results.append(result)
        return {
            "id": str(uuid4()),
            "object": "list",
            "model": model,
            "results": results,
            "meta": {
                "api_version": {"version": str(version)},
                "tokens": {"input_tokens": found.tokens},
            },
            "usage": {"total_tokens": found.tokens, "prompt_tokens": found.tokens},
            "tree": found.tree,
        }

    def _spans(self, id: str, answers: Sequence[Answer]) -> list[dict[str, float]]:
        """Return where a document has answers, most likely first."""
        spans = (
            {"start": start, "end": end, "score": exp(answer.log_prob)}
            for answer in answers
            if exp(answer.log_prob) >= self.relevant_spans.threshold
            for support in answer.support
            if support.passage.id == id
            for start, end in support.spans
        )
        return list(islice(spans, self.relevant_spans.max_spans))


def _check_size(count: int, unit: str, limit: int) -> None:
    if count > limit:
        raise HTTPException(413, f"{count:,} {unit}; send at most {limit:,}")


def _check_k(k: int, limit: int) -> None:
    if k > limit:
        raise HTTPException(422, f"k: must be at most {limit}")


def _text(value: object) -> str:
    return "" if value is None else str(value)
