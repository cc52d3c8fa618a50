"""The rerankers that have a name, `jpr rerank --method NAME`: a line each, loaded when used.

A module has `make(wanted)`, which returns a reranker with a `key` (`jpr.rerank.batch`); how to add
one is in docs/extending.md.
"""

from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jpr.rerank.batch import KeyedReranker


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a user says of a reranker."""

    method: str
    model: Path | None = None
    """Folder of its weights."""
    relevance: float | None = None
    """How much relevance counts, against difference (λ)."""
    encoder: Path | None = None
    """Folder of an encoder; none for the one inside."""
    decoder: str | None = None
    """joint: one of `jpr.rerank.decoding`; none for the model's own, as for β."""
    beta: float | None = None
    budget: int | None = None
    """joint: tokens that the passages may have together."""
    answers: bool = True
    """joint: whether to choose for the answers that passages add."""
    is_adaptive: bool = False
    """joint: whether the model says how many passages are enough."""
    threads: int = 0
    """For ONNX; 0 is one per core."""

    def elsewhere(self) -> "Wanted":
        """Return the same for a worker: paths from anywhere, one thread."""
        model, encoder = (path and path.resolve() for path in (self.model, self.encoder))
        return replace(self, model=model, encoder=encoder, threads=1)


@dataclass(frozen=True, slots=True)
class Method:
    """A way to choose."""

    module: str
    options: tuple[str, ...] = ()
    """Those of `jpr rerank` that it can use, beside what all can."""
    reads: bool = True
    """Whether it needs texts."""
    knows_answers: bool = False
    """Whether it needs the answers to be found."""

    def make(self, wanted: Wanted) -> "KeyedReranker":
        """Return the reranker."""
        made: KeyedReranker = import_module(self.module).make(wanted)
        return made


JOINT, FIRST_STAGE, ORACLE = "joint", "first-stage", "oracle"
_OF_JOINT = ("--model", "--decode", "--beta", "--trees", "--budget", "--answers", "--lambda")
_DIVERSE = Method("jpr.rerank.diversify", ("--lambda", "--encoder"))
METHODS = {
    JOINT: Method("jpr.rerank.joint", _OF_JOINT),
    "pointwise": Method("jpr.rerank.pointwise", ("--model",)),
    **dict.fromkeys(("mmr", "dpp", "msd", "cover", "ssd"), _DIVERSE),
    ORACLE: Method("jpr.rerank.oracle", knows_answers=True),
    FIRST_STAGE: Method("jpr.rerank.order", reads=False),
}


def open_reranker(wanted: Wanted) -> "tuple[KeyedReranker, str]":
    """Return a reranker and its key."""
    reranker = METHODS[wanted.method].make(wanted)
    return reranker, reranker.key
