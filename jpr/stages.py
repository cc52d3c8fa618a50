"""The stages of the system as protocols: what a new method must implement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

from jpr.types import Answer, Hit, Passage, Question, Ranking

if TYPE_CHECKING:  # `jpr --help` must not load numpy
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")
Progress = Callable[[int], None]
"""Called by long work with the number of items just finished."""


def batched(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield lists of `size` items, the last one shorter (`itertools.batched` of Python 3.12).

    >>> list(batched("abc", 2))
    [['a', 'b'], ['c']]
    """
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch


class Retriever(Protocol):
    """The first stage: finds candidates. A subclass needs only `retrieve_many`."""

    def retrieve(self, question: Question, k: int) -> Ranking:
        """Return the k best passages of the corpus, or all if it has fewer."""
        return next(self.retrieve_many([question], k))

    def retrieve_many(self, questions: Iterable[Question], k: int) -> Iterator[Ranking]:
        """Do the same for many questions, in their order, in batches where that is faster."""


@runtime_checkable
class ListRetriever(Retriever, Protocol):
    """A retriever that knows which passage comes next in a document."""

    def with_list_neighbors(self, ranking: Ranking) -> Ranking:
        """Return candidates with the passages in which their lists begin and continue."""


class Encoder(Protocol):
    """Turns texts into vectors; the inner product is the relevance of a passage to a question."""

    key: str
    """Names the weights and settings: only vectors made under the same key can be compared."""
    dimension: int

    def encode_questions(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one vector per question, (n, dimension)."""

    def encode_passages(self, passages: Sequence[Passage]) -> NDArray[np.float32]:
        """Return one vector per passage, (n, dimension)."""


class Reranker(Protocol):
    """The second stage: chooses from the candidates. A subclass needs only `rank_many`."""

    def rank(self, question: Question, candidates: Sequence[Hit], k: int) -> Ranking:
        """Return k of the candidates, best first, or all if there are fewer.

        Passages are unchanged; scores are the reranker's own and strictly decrease, so that
        sorting by score gives the same order.
        """
        return next(self.rank_many([Ranking(question, tuple(candidates))], k))

    def rank_many(self, rankings: Iterable[Ranking], k: int) -> Iterator[Ranking]:
        """Do the same for the candidates of many questions, in their order."""


class KeyedReranker(Reranker, Protocol):
    """A reranker whose results can be resumed."""

    @property
    def key(self) -> str:
        """Names method, weights and settings: the same key, the same choices."""


class Reader(Protocol):
    """The third stage: reads answers from chosen passages. A subclass needs only `read_many`."""

    def read(self, ranking: Ranking) -> tuple[Answer, ...]:
        """Return the distinct answers in a question's passages, most likely first.

        No two have the same normal form. Each is written as in a passage that supports it.
        """
        return next(self.read_many([ranking]))

    def read_many(self, rankings: Iterable[Ranking]) -> Iterator[tuple[Answer, ...]]:
        """Do the same for many questions, in their order."""


class KeyedReader(Reader, Protocol):
    """A reader whose results can be resumed."""

    @property
    def key(self) -> str:
        """Names method, weights and settings: the same key, the same answers."""
