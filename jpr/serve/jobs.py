"""What requests ask for, and what they get: records between HTTP and the engine."""

from dataclasses import dataclass

from jpr.pipeline import Pipeline
from jpr.types import Answer, Ranking


@dataclass(frozen=True, slots=True)
class How:
    """How passages are to be chosen; what is None is as the pipeline has it."""

    k: int | None = None
    decoder: str | None = None
    beta: float | None = None


@dataclass(frozen=True, slots=True)
class Ask:
    """A question to a corpus."""

    pipeline: Pipeline
    corpus: str
    """Names it: the same question to the same corpus has the same candidates."""
    question: str
    how: How
    compare: bool = False
    """Whether to give the passages chosen one by one, too."""


Told = dict[str, object]
"""The reply to a question, as JSON has it."""


@dataclass(frozen=True, slots=True)
class Rerank:
    """Candidates to choose from; where k is None, all are put in an order."""

    candidates: Ranking
    """Each has its place as its id."""
    how: How


@dataclass(frozen=True, slots=True)
class Reranked:
    """The candidates of a request in their order."""

    order: tuple[tuple[int, float], ...]
    """Places and scores, which fall from 1 towards 0."""
    answers: tuple[Answer, ...]
    tree: dict[str, object]
    tokens: int
    """That were read."""


@dataclass(frozen=True, slots=True)
class Search:
    """A query to a corpus."""

    pipeline: Pipeline
    query: str
    k: int
