"""The records that flow between the stages; they import nothing else of the package."""

from collections.abc import Mapping
from dataclasses import dataclass, field

NO_META: Mapping[str, object] = {}  # shared by passages without other fields
TREES = ("tree", "sets")
INDEPENDENT = "independent"
"""Ranks passages independently, as IndepPR does: the baseline of joint choices."""
DECODERS = (*TREES, "seq", "beam", INDEPENDENT)
CONDITIONINGS = ("learned", "coverage", "none")
"""How P(next | prefix) depends on the prefix: as the model learned it, by the answers that passages
add, or by the model's decoder alone."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of text that can be retrieved."""

    id: str
    title: str
    text: str
    meta: Mapping[str, object] = field(default_factory=lambda: NO_META, hash=False)
    """Other fields of the source; kept through all stages."""
    context: str = ""
    """The first words of a list that the text continues: read with it, but no part of it."""

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
    """The answers of each annotator if there were several; empty means `answers` alone."""
    regex: str = ""
    """The expression that answers match (CuratedTREC), until it is grouped into `answers`."""

    def __repr__(self) -> str:
        gold = f"regex={self.regex!r}" if self.regex else f"answers={len(self.answers)}"
        return f"Question(id={self.id!r}, text={self.text!r}, {gold})"


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage with its score in a ranking."""

    passage: Passage
    score: float


@dataclass(frozen=True, slots=True)
class Ranking:
    """Passages for a question, best first."""

    question: Question
    hits: tuple[Hit, ...]

    def top(self, k: int) -> "Ranking":
        """Return the first `k` hits."""
        return Ranking(self.question, self.hits[:k])


@dataclass(frozen=True, slots=True)
class Support:
    """A passage that contains an answer."""

    passage: Passage
    spans: tuple[tuple[int, int], ...]
    """Where in its text, (start, end) each; empty if the answer is in the title alone."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer as a passage writes it, and the passages that contain it, best first."""

    text: str
    log_prob: float
    support: tuple[Support, ...] = ()
    """Empty only if the reader may give answers that no passage contains."""


Prefix = tuple[int, ...]
"""Passages chosen so far, as positions among the candidates."""


@dataclass(frozen=True, slots=True)
class ExpectedAnswer:
    """An answer that a passage is expected to add to its prefix."""

    text: str
    probability: float
    """P(a | prefix), over all answers that may come next."""
    overall: float
    """P(a), before anything is chosen: comparable with `Answer.log_prob`."""
    spans: tuple[tuple[int, int], ...]
    """Where in the passage's text; empty if it is in the title alone."""


@dataclass(frozen=True, slots=True)
class Node:
    """One expansion of a search over candidates: `passage` after `prefix`."""

    prefix: Prefix
    passage: int
    log_prob: float
    score: float
    """The log-probability times the length penalty: what expansions compete by."""
    is_new: bool
    """Whether the passage was not chosen before, under another prefix."""
    instead_of: tuple[tuple[Prefix, int, float], ...] = ()
    """The next best expansions: prefix, passage, score."""
    worth: float = 0.0
    """log P that the passage adds the next answer, or, if the model does not read answers, the
    score: what the stopping threshold is compared with."""
    expected: tuple[ExpectedAnswer, ...] = ()
    """What the passage is expected to add; empty if the model does not choose by answers."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The answers to a question, the passages chosen for it, and the search that chose them."""

    answers: tuple[Answer, ...]
    """Most likely first."""
    ranking: Ranking
    """The chosen passages."""
    candidates: Ranking
    """What they were chosen from; the positions in `nodes` refer to its hits."""
    nodes: tuple[Node, ...] = ()
    """The expansions of the search, in order; empty if the reranker does not search."""
    decoder: str = ""
    beta: float | None = None
    """The length penalty; None if the decoder has none."""
    truncated: tuple[int, ...] = ()
    """Candidates of which the model did not read everything, as positions like those in `nodes`."""

    @property
    def question(self) -> str:
        """The question's text."""
        return self.ranking.question.text

    @property
    def depths(self) -> tuple[int, ...]:
        """For each chosen passage, the depth at which the search found it, from 1."""
        found = tuple(len(node.prefix) + 1 for node in self.nodes if node.is_new)
        return found or (1,) * len(self.ranking.hits)

    @property
    def contained(self) -> tuple[tuple[int, ...], ...]:
        """For each chosen passage, the answers it contains, as positions in `answers`."""
        supports = [{one.passage.id for one in answer.support} for answer in self.answers]
        return tuple(
            tuple(at for at, ids in enumerate(supports) if hit.passage.id in ids)
            for hit in self.ranking.hits
        )

    @property
    def new_answers(self) -> tuple[tuple[str, ...], ...]:
        """For each chosen passage, the texts of answers that no earlier one contains."""
        seen: set[int] = set()
        found = []
        for contained in self.contained:
            found.append(tuple(self.answers[at].text for at in contained if at not in seen))
            seen.update(contained)
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Prediction:
    """The answers a system gave to the question with this id."""

    id: str
    answers: tuple[str, ...]
