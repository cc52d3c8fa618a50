"""The path of a question: retriever, reranker, reader; all interfaces of the package run it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import tee
from threading import Lock

from jpr.errors import ConfigError, DataError
from jpr.formats.questions import check_length
from jpr.read.spans import SpanReader
from jpr.rerank.joint import JointReranker
from jpr.rerank.scorer import EncodedCandidates
from jpr.stages import ListRetriever, Reader, Reranker, Retriever
from jpr.types import Question, Ranking, Reply


def as_question(text: str) -> Question:
    """Return the question with this text, which must not be empty or as long as a book."""
    return checked_question(Question("1", text))


def checked_question(question: Question) -> Question:
    """Return a question after a check of its text."""
    if not question.text.strip():
        raise DataError("the question has no text; ask something")
    check_length(question.text)
    return question


@dataclass(frozen=True, slots=True)
class Pipeline:
    """From a question to its answers and the passages that contain them."""

    retriever: Retriever
    reranker: Reranker
    reader: Reader
    k: int = 5
    """Passages to choose."""
    candidates: int = 100
    """Passages to choose from."""

    def __post_init__(self) -> None:
        if not 1 <= self.k <= self.candidates:
            raise ConfigError(
                f"k = {self.k} of {self.candidates} candidates; choose at least 1 and at most all"
            )

    def ask(
        self,
        question: str,
        *,
        beta: float | None = None,
        decoder: str | None = None,
        k: int | None = None,
    ) -> Reply:
        """Answer a question; β, decoder and k default to the pipeline's, β alone selects a tree."""
        return self.open(question).reply(beta=beta, decoder=decoder, k=k)

    def ask_many(
        self,
        questions: Iterable[Question],
        *,
        beta: float | None = None,
        decoder: str | None = None,
        k: int | None = None,
    ) -> Iterator[Reply]:
        """Answer many questions, in their order, in batches where that is faster."""
        reranker, k = _decoding_by(self.reranker, decoder, beta), self._checked_k(k)
        asked = (checked_question(question) for question in questions)
        retrieved = self.retriever.retrieve_many(asked, self.candidates)
        found: Iterator[Ranking] = map(self._complete, retrieved)
        if isinstance(reranker, JointReranker):
            replies = reranker.decode_many(found, k)
        else:
            found, given = tee(found)
            ranked = zip(found, reranker.rank_many(given, k), strict=True)
            replies = (Reply((), ranking, candidates) for candidates, ranking in ranked)
        yield from self._with_answers(replies)

    def open(self, question: str) -> "OpenQuestion":
        """Retrieve a question's candidates, to reply several times."""
        found = self.retriever.retrieve(as_question(question), self.candidates)
        return OpenQuestion(self, self._complete(found))

    def _complete(self, candidates: Ranking) -> Ranking:
        """Add the passages in which lists begin and continue, for a model that reads them."""
        match self.reranker, self.retriever:
            case JointReranker(), ListRetriever() as retriever:
                return retriever.with_list_neighbors(candidates)
        return candidates

    def _checked_k(self, k: int | None) -> int:
        if k is not None and k < 1:
            raise ConfigError(f"k = {k}; k must be 1 or more")
        return self.k if k is None else k

    def _with_answers(self, replies: Iterable[Reply]) -> Iterator[Reply]:
        """Read the answers; a reader that is the reranker's own model has read all candidates."""
        match self.reranker, self.reader:
            case JointReranker() as joint, SpanReader() as spans if spans.shares_model(joint):
                for reply in replies:
                    yield replace(reply, answers=spans.select(reply.answers))
            case _:
                replies, given = tee(replies)
                read = self.reader.read_many(reply.ranking for reply in given)
                for reply, answers in zip(replies, read, strict=True):
                    yield replace(reply, answers=answers)


def _decoding_by(reranker: Reranker, decoder: str | None, beta: float | None) -> Reranker:
    if decoder is None and beta is None:
        return reranker
    if not isinstance(reranker, JointReranker):
        raise ConfigError("β and decoders are for a joint model; leave them out")
    return reranker.with_decoding(reranker.decoding.with_decoder(decoder, beta))


class OpenQuestion:
    """A question with its candidates, encoded once if the model can keep them; thread-safe."""

    def __init__(self, pipeline: Pipeline, candidates: Ranking) -> None:
        """Take the candidates that were retrieved."""
        self._pipeline, self.candidates = pipeline, candidates
        self._lock = Lock()
        self._encoded: EncodedCandidates | None = None

    def reply(
        self, *, beta: float | None = None, decoder: str | None = None, k: int | None = None
    ) -> Reply:
        """Answer, with another β, decoder or k if given; after the first time in milliseconds."""
        k, given = self._pipeline._checked_k(k), self.candidates
        reranker = _decoding_by(self._pipeline.reranker, decoder, beta)
        if isinstance(reranker, JointReranker):
            with self._lock:
                encoded = self._encoded or reranker.encode([given])
                if reranker.scorer.stays_open:
                    self._encoded = encoded
                reply = next(encoded.choose(reranker.decoding, k, explain=True))
        else:
            reply = Reply((), reranker.rank(given.question, given.hits, k), given)
        return next(self._pipeline._with_answers([reply]))
