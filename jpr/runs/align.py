"""Bring a run, or predictions, into the order of the questions they are for.

What is matched: the id; failing that, the text of the question, stripped and case-folded, where
it is that of one question only. A question that the run lacks has an empty ranking, so that no
average silently leaves it out.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

from jpr.errors import DataError
from jpr.types import Prediction, Question, Ranking

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Alignment:
    """A run in the order of the questions, and what did not fit."""

    rankings: tuple[Ranking, ...]
    """One for each question, with the question as it was given."""
    missing: tuple[str, ...]
    """Ids of questions that the run lacks; their rankings are empty."""
    unknown: tuple[str, ...]
    """Ids of rankings whose question is not among the questions."""


@dataclass(frozen=True, slots=True)
class AlignedPredictions:
    """Predictions in the order of the questions, and what did not fit."""

    predictions: tuple[Prediction, ...]
    """One for each question, under the question's id."""
    missing: tuple[str, ...]
    """Ids of questions without a prediction; theirs hold no answer."""
    unknown: tuple[str, ...]
    """Ids of predictions whose question is not among the questions."""


def align(questions: Sequence[Question], rankings: Iterable[Ranking]) -> Alignment:
    """Give each question its ranking, with the gold question in it."""
    matches = _Matches[Ranking](questions)
    for ranking in rankings:
        check_unique_passages(ranking)
        matches.add(ranking.question.id, ranking.question.text, ranking)
    matches.check("ranking")
    hits = {id: ranking.hits for id, ranking in matches.found.items()}
    return Alignment(
        tuple(Ranking(question, hits.get(question.id, ())) for question in questions),
        matches.missing(),
        tuple(matches.unknown),
    )


def align_predictions(
    questions: Sequence[Question], predictions: Iterable[Prediction]
) -> AlignedPredictions:
    """Give each question its prediction; ids of predictions may be texts of questions."""
    matches = _Matches[Prediction](questions)
    for prediction in predictions:
        matches.add(prediction.id, "", prediction)
    matches.check("prediction")
    answers = {id: prediction.answers for id, prediction in matches.found.items()}
    return AlignedPredictions(
        tuple(Prediction(question.id, answers.get(question.id, ())) for question in questions),
        matches.missing(),
        tuple(matches.unknown),
    )


def check_unique_passages(ranking: Ranking) -> None:
    """Refuse a ranking that holds a passage twice, which would spoil every measure."""
    ids = {hit.passage.id for hit in ranking.hits}
    if len(ids) == len(ranking.hits):
        return
    id, times = Counter(hit.passage.id for hit in ranking.hits).most_common(1)[0]
    raise DataError(
        f"question {ranking.question.id!r}: passage {id!r} comes {times} times in its ranking; "
        "keep the first of each"
    )


class _Matches(Generic[T]):
    """What belongs to which question."""

    def __init__(self, questions: Sequence[Question]) -> None:
        self.questions = {question.id: question for question in questions}
        if len(self.questions) < len(questions):
            id, times = Counter(question.id for question in questions).most_common(1)[0]
            raise DataError(f"{times} questions have the id {id!r}; ids must differ")
        counts = Counter(_folded(question.text) for question in questions)
        self.by_text = {
            text: question.id
            for question in questions
            if counts[text := _folded(question.text)] == 1 and text
        }
        self.found: dict[str, T] = {}
        self.unknown: list[str] = []

    def add(self, id: str, text: str, item: T) -> None:
        """Find the question of an item that has this id and, where it is known, this text."""
        of_text = self.by_text.get(_folded(text or id))
        if id not in self.questions and of_text is None:
            self.unknown.append(id)
            return
        question = id if id in self.questions else str(of_text)
        if of_text is not None and of_text != question and text:
            raise DataError(
                f"the ranking with id {id!r} has the text of question {of_text!r}; its ids number "
                "other questions: remove them, and the texts will be matched"
            )
        if question in self.found:
            raise DataError(f"question {question!r} comes twice in the run; keep one of the two")
        self.found[question] = item

    def missing(self) -> tuple[str, ...]:
        """Return the ids of the questions that nothing was found for."""
        return tuple(id for id in self.questions if id not in self.found)

    def check(self, kind: str) -> None:
        """Refuse to go on where nothing fits at all."""
        if not self.found:
            raise DataError(
                f"no {kind} belongs to any question: the questions have ids like "
                f"{_examples(self.questions)}, the {kind}s {_examples(self.unknown)}; "
                "are they of the same data set?"
            )


def _folded(text: str) -> str:
    return text.strip().casefold()


def _examples(ids: Iterable[str]) -> str:
    return ", ".join(f"{id!r:.60}" for id in islice(ids, 3)) or "(there are none)"
