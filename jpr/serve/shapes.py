"""Requests and answers as JSON has them: those of Cohere's and Jina's clients, and our own.

Fields that others' clients send and we have no use for are passed over: `model`, as there is one;
`max_tokens_per_doc` and `max_chunks_per_doc`, as the model cuts a passage by itself; `priority`.
"""

from collections.abc import Iterator, Sequence
from math import exp
from typing import Annotated, Literal
from uuid import uuid4

from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from jpr.io.json_files import strict_json
from jpr.serve.gate import Refusal
from jpr.serve.jobs import How, Rerank, Reranked
from jpr.serve.limits import Limits
from jpr.types import Answer, Hit, Passage, Question, Ranking

Decoder = Literal["tree", "sets", "seq", "beam", "independent"]
Beta = Annotated[float, Field(ge=-20, le=20)]
Document = str | dict[str, object]


class _Ours(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class AskBody(_Ours):
    """A question."""

    question: str = Field(min_length=1)
    k: int | None = Field(None, ge=1, description="Passages to choose.")
    beta: Beta | None = Field(None, description="Larger is wider; alone, it asks for a tree.")
    decode: Decoder | None = None
    corpus: str | None = Field(None, description="Of POST /v1/corpora; without, the service's own.")
    compare: bool = Field(False, description="Give the passages chosen one by one, too.")

    def how(self) -> How:
        """Return how passages are to be chosen."""
        return How(self.k, self.decode, self.beta)


class SearchBody(_Ours):
    """A query to the first stage."""

    query: str = Field(min_length=1)
    k: int = Field(10, ge=1)
    corpus: str | None = None


class Spans(BaseModel):
    """Whether to tell where in documents answers are."""

    mode: Literal["enabled", "disabled"] = "disabled"
    threshold: float = 0.1
    max_spans: int | None = Field(default=None, ge=1)


class RerankBody(BaseModel):
    """Documents to choose from, in the shape of Cohere and Jina; `decode` and `beta` are ours."""

    query: str = Field(min_length=1)
    documents: list[Document] = Field(min_length=1)
    top_n: int | None = Field(None, ge=1)
    return_documents: bool | None = None
    rank_fields: list[str] | None = Field(None, min_length=1)
    relevant_spans: Spans = Spans()
    decode: Decoder | None = None
    beta: Beta | None = None

    def job(self, limits: Limits) -> Rerank:
        """Return what is to be done, within limits."""
        if len(self.documents) > limits.passages:
            told = f"{len(self.documents):,} documents; send at most {limits.passages:,}"
            raise Refusal(413, told)
        passages = [self._passage(at, document) for at, document in enumerate(self.documents)]
        check_characters([self.query, *(p.title + p.text for p in passages)], limits)
        hits = tuple(Hit(passage, -float(at)) for at, passage in enumerate(passages))
        ranking = Ranking(Question("1", self.query), hits)
        return Rerank(ranking, How(self.top_n, self.decode, self.beta))

    def _passage(self, at: int, document: Document) -> Passage:
        if isinstance(document, str):
            return Passage(str(at), "", document)
        fields = self.rank_fields or ["text"]
        missing = next((name for name in fields if name not in document), None)
        if missing is not None:
            raise Refusal(422, f"documents.{at}: it has no {missing!r}; send one, or a string")
        title = "" if "title" in fields else document.get("title", "")
        return Passage(str(at), _text(title), "\n".join(_text(document[name]) for name in fields))

    def given(self, at: int) -> dict[str, object]:
        """Return a document as it was given."""
        document = self.documents[at]
        return {"text": document} if isinstance(document, str) else document


def _text(value: object) -> str:
    try:
        return value if isinstance(value, str) else "" if value is None else str(value)
    except RecursionError:
        raise Refusal(422, "a document is nested too deeply; send it flat") from None


def check_characters(texts: Sequence[str], limits: Limits) -> None:
    """Refuse more text than a request may have."""
    characters = sum(map(len, texts))
    if characters > limits.characters:
        told = f"{characters:,} characters; send at most {limits.characters:,}"
        raise Refusal(413, told)


class Json(JSONResponse):
    """JSON that every client takes, whatever a document held."""

    def render(self, content: object) -> bytes:
        """Return the body."""
        try:
            return strict_json(content).encode()
        except RecursionError:
            raise Refusal(422, "a document is nested too deeply; send it flat") from None


class Result(BaseModel):
    """A chosen document."""

    index: int = Field(description="Its place among the documents of the request, from 0.")
    relevance_score: float = Field(description="Falls from each to the next; see docs/serve.md.")
    document: dict[str, object] | None = None
    relevant_spans: list[dict[str, float]] | None = None


class RerankAnswer(BaseModel):
    """Documents in the order in which they were chosen, and how."""

    id: str
    model: str
    results: list[Result]
    meta: dict[str, object]
    usage: dict[str, int]
    tree: dict[str, object] = Field(description="The search; documents by their indexes.")


def rerank_answer(body: RerankBody, found: Reranked, version: int, model: str) -> dict[str, object]:
    """Return the answer to a request; Jina, in version 1 alone, gives documents unasked."""
    wants_documents = version == 1 if body.return_documents is None else body.return_documents
    results: list[dict[str, object]] = []
    for at, score in found.order:
        result: dict[str, object] = {"index": at, "relevance_score": score}
        if wants_documents:
            result["document"] = body.given(at)
        if body.relevant_spans.mode == "enabled":
            result["relevant_spans"] = _spans(str(at), found.answers, body.relevant_spans)
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


def _spans(id: str, answers: Sequence[Answer], wanted: Spans) -> list[dict[str, float]]:
    """Return where a document has answers, likeliest first."""

    def every() -> Iterator[dict[str, float]]:
        for answer in answers:
            for support in answer.support:
                if support.passage.id == id and exp(answer.log_prob) >= wanted.threshold:
                    for start, end in support.spans:
                        yield {"start": start, "end": end, "score": exp(answer.log_prob)}

    return list(every())[: wanted.max_spans]
