"""The stages of the system, as protocols: what a new method has to have, and nothing more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Protocol, TypeVar

from jpr.types import Hit, Outcome, Passage, Question, Ranking

if TYPE_CHECKING:  # `jpr --help` must not load numpy
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")
Progress = Callable[[int], None]
"""What long work calls with the number of things just finished."""


def batched(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield lists of `size` items, the last one shorter (`itertools.batched` of Python 3.12).

    >>> list(batched("abc", 2))
    [['a', 'b'], ['c']]
    """
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch


class Retriever(Protocol):
    """Finds candidates: the first stage."""

    def retrieve(self, question: Question, k: int) -> Ranking:
        """Return the k best passages of the corpus, or all where it holds fewer."""

    def retrieve_many(self, questions: Iterable[Question], k: int) -> Iterator[Ranking]:
        """Do the same for many questions, in their order, in batches where that pays."""


class Encoder(Protocol):
    """Turns texts into vectors; the inner product says how well a passage answers a question."""

    key: str
    """Names the weights and settings: only vectors made under the same key can be compared."""
    dimension: int

    def encode_questions(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one vector per question, (n, dimension)."""

    def encode_passages(self, passages: Sequence[Passage]) -> NDArray[np.float32]:
        """Return one vector per passage, (n, dimension)."""


class Reranker(Protocol):
    """Chooses from candidates: the second stage."""

    def rank(self, question: Question, candidates: Sequence[Hit], k: int) -> Ranking:
        """Return k of the candidates, best first, or all where there are fewer.

        Passages come back as they were; scores are the reranker's own and fall from each passage
        to the next, so that who sorts by them finds the same order.
        """

    def rank_many(self, rankings: Iterable[Ranking], k: int) -> Iterator[Ranking]:
        """Do the same for the candidates of many questions, in their order."""


class Reader(Protocol):
    """Reads answers off the chosen passages: the third stage."""

    def read(self, ranking: Ranking) -> Outcome:
        """Return the distinct answers that a question's passages give; none where there are none.

        No two have the same normal form. Each is written as in a passage that supports it.
        """

    def read_many(self, rankings: Iterable[Ranking]) -> Iterator[Outcome]:
        """Do the same for many questions, in their order."""
