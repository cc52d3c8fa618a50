"""What flows between the stages: frozen records that import nothing of ours."""

from collections.abc import Mapping
from dataclasses import dataclass, field

_NO_META: Mapping[str, object] = {}


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of text that can be retrieved."""

    id: str
    title: str
    text: str
    meta: Mapping[str, object] = field(default_factory=lambda: _NO_META, hash=False)
    """Whatever else the source said of the passage; carried along, never dropped."""

    @property
    def is_bare(self) -> bool:
        """Whether the passage is only an id, as in TREC runs."""
        return not self.text and not self.title


@dataclass(frozen=True, slots=True)
class Question:
    """A question and its distinct gold answers, each with every spelling accepted for it.

    >>> Question("1", "Who plays Mark on Roseanne?", (("Glenn Quinn",), ("Ames McNamara",)))
    Question(id='1', text='Who plays Mark on Roseanne?', answers=2)
    """

    id: str
    text: str
    answers: tuple[tuple[str, ...], ...] = ()
    annotations: tuple[tuple[tuple[str, ...], ...], ...] = ()
    """Each annotator's own answers where there were several; empty means `answers` alone."""
    regex: str = ""
    """The expression that answers match (CuratedTREC), until it is grouped into `answers`."""

    def __repr__(self) -> str:
        gold = f"regex={self.regex!r}" if self.regex else f"answers={len(self.answers)}"
        return f"Question(id={self.id!r}, text={self.text!r}, {gold})"


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage with the score that put it where it is."""

    passage: Passage
    score: float


@dataclass(frozen=True, slots=True)
class Ranking:
    """Passages for a question, best first."""

    question: Question
    hits: tuple[Hit, ...]

    def top(self, k: int) -> "Ranking":
        """Return the ranking cut after its first `k` hits."""
        return Ranking(self.question, self.hits[:k])


@dataclass(frozen=True, slots=True)
class Support:
    """A passage that contains an answer."""

    passage: Passage
    spans: tuple[tuple[int, int], ...]
    """From where to where in its text; nowhere where the answer is in the title alone."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer as a passage writes it, and the passages that contain it, best first."""

    text: str
    log_prob: float
    support: tuple[Support, ...] = ()
    """Empty only where a reader was told that its answers need not be in any passage."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The passages chosen for a question, and the answers read from them, likeliest first."""

    ranking: Ranking
    answers: tuple[Answer, ...]


@dataclass(frozen=True, slots=True)
class Prediction:
    """The answers a system gave to the question with this id."""

    id: str
    answers: tuple[str, ...]
