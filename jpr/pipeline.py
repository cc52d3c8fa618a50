"""The whole system: a retriever, a reranker and a reader, one after the other."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from jpr.errors import ConfigError, DataError
from jpr.formats.questions import check_length
from jpr.read.spans import ChoosingReader, SpanReader
from jpr.rerank.joint import JointReranker
from jpr.stages import Reader, Reranker, Retriever
from jpr.types import Outcome, Question


def worded(question: str) -> Question:
    """Return the question with this text; one without a word, or as long as a book, is an error."""
    if not question.strip():
        raise DataError("the question has no text; ask something")
    check_length(question)
    return Question("1", question)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """From a question to its answers and the passages that say them."""

    retriever: Retriever
    reranker: Reranker
    reader: Reader
    k: int = 5
    """Passages chosen."""
    candidates: int = 100
    """Passages chosen from."""

    def __post_init__(self) -> None:
        if not 1 <= self.k <= self.candidates:
            raise ConfigError(
                f"k = {self.k} of {self.candidates} candidates; choose at least one, and no more "
                "than there are"
            )

    def __call__(self, question: str) -> Outcome:
        """Answer a question."""
        return next(self.ask_many([worded(question)]))

    def ask_many(self, questions: Iterable[Question]) -> Iterator[Outcome]:
        """Answer many questions, in their order.

        A reader that is the reranker's own model reads in the same pass, and all the candidates.
        """
        found = self.retriever.retrieve_many(questions, self.candidates)
        match self.reranker, self.reader:
            case JointReranker() as joint, SpanReader() as spans if spans.reads_for(joint):
                return ChoosingReader(joint, spans, self.k).read_many(found)
        return self.reader.read_many(self.reranker.rank_many(found, self.k))
