"""The rerankers that have a name, `jpr rerank --method NAME`: a line each, loaded when used.

A module has `make(wanted)`, which returns a reranker with a `key` (`jpr.rerank.batch`); how to add
one is in docs/extending.md.
"""

from dataclasses import dataclass
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
