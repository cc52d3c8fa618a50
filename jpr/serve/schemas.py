"""Requests and responses as JSON: those of Cohere's and Jina's clients, and our own.

Fields of other clients that have no meaning here are ignored: `model`, as there is one;
`max_tokens_per_doc` and `max_chunks_per_doc`, as the model truncates passages; `priority`.
"""

from collections.abc import Sequence
from itertools import islice
from math import exp
from typing import Annotated, Literal
from uuid import uuid4

from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from jpr.io.json_files import strict_json
from jpr.serve.engine import DecodeOptions, RerankJob, RerankResult
from jpr.serve.limits import ServiceLimits
from jpr.types import Answer, Hit, Passage, Question, Ranking

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


class SearchRequest(_StrictModel):
    """A query to the first stage."""

    query: str = Field(min_length=1)
    k: int = Field(10, ge=1)
    corpus: str | None = None


class RelevantSpans(BaseModel):
    """Whether to return where the answers are in documents."""

    mode: Literal["enabled", "disabled"] = "disabled"
    threshold: float = 0.1
    max_spans: int | None = Field(default=None, ge=1)


class RerankRequest(BaseModel):
    """Documents to choose from, in the format of Cohere and Jina; `decode` and `beta` are ours."""

    query: str = Field(min_length=1)
    documents: list[Document] = Field(min_length=1)
    top_n: int | None = Field(None, ge=1)
    return_documents: bool | None = None
    rank_fields: list[str] | None = Field(None, min_length=1)
    relevant_spans: RelevantSpans = RelevantSpans()
    decode: Decoder | None = None
    beta: Beta | None = None

    def job(self, limits: ServiceLimits) -> RerankJob:
        """Return the job of the request, within limits."""
        if len(self.documents) > limits.passages:
            message = f"{len(self.documents):,} documents; send at most {limits.passages:,}"
            raise HTTPException(413, message)
        passages = [self._passage(at, document) for at, document in enumerate(self.documents)]
        check_characters([self.query, *(p.title + p.text for p in passages)], limits)
        hits = tuple(Hit(passage, -float(at)) for at, passage in enumerate(passages))
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

    def response(self, found: RerankResult, version: int, model: str) -> dict[str, object]:
        """Return the response; Jina's (version 1) has documents by default."""
        is_default = self.return_documents is None
        with_documents = version == 1 if is_default else self.return_documents
        results: list[dict[str, object]] = []
        for at, score in found.order:
            result: dict[str, object] = {"index": at, "relevance_score": score}
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


class RerankedDocument(BaseModel):
    """A chosen document."""

    index: int = Field(description="Its position among the documents of the request, from 0.")
    relevance_score: float = Field(
        description="Decreases from each to the next; see docs/serve.md."
    )
    document: dict[str, object] | None = None
    relevant_spans: list[dict[str, float]] | None = None


class RerankResponse(BaseModel):
    """Documents in the order in which they were chosen, and the search tree."""

    id: str
    model: str
    results: list[RerankedDocument]
    meta: dict[str, object]
    usage: dict[str, int]
    tree: dict[str, object] = Field(description="The search; documents by their indexes.")


class Json(JSONResponse):
    """JSON that every client can parse, whatever a document held."""

    def render(self, content: object) -> bytes:
        """Return the body."""
        try:
            return strict_json(content).encode()
        except RecursionError:
            raise _too_deep() from None


def error_body(message: str) -> dict[str, str]:
    """Return an error's body: clients of Cohere read its `message`, of Jina its `detail`."""
    return {"message": message, "detail": message}


def check_characters(texts: Sequence[str], limits: ServiceLimits) -> None:
    """Raise HTTPException 413 for more text than a request may have."""
    characters = sum(map(len, texts))
    if characters > limits.characters:
        message = f"{characters:,} characters; send at most {limits.characters:,}"
        raise HTTPException(413, message)


def _text(value: object) -> str:
    try:
        return "" if value is None else str(value)
    except RecursionError:
        raise _too_deep() from None


def _too_deep() -> HTTPException:
    return HTTPException(422, "a document is nested too deeply; send it flat")
