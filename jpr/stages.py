"""The stages of the system, as protocols: what a new method has to have, and nothing more."""

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from jpr.types import Question, Ranking

Progress = Callable[[int], None]
"""What long work calls with the number of things just finished."""


class Retriever(Protocol):
    """Finds candidates: the first stage."""

    def retrieve(self, question: Question, k: int) -> Ranking:
        """Return the k best passages of the corpus, or all where it holds fewer."""

    def retrieve_many(self, questions: Iterable[Question], k: int) -> Iterator[Ranking]:
        """Do the same for many questions, in their order, in batches where that pays."""
