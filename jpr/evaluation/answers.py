"""Measures of generated answers: AmbigQA's F1 and exact match, after SQuAD's normalization."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jpr.text import normalize_answer
from jpr.types import Question


@dataclass(frozen=True, slots=True)
class AnswerMeasure:
    """A measure of the answers given to one question, between 0 and 1."""

    name: str
    value: Callable[[Question, Sequence[str]], float]
    binary: bool = False

    def __repr__(self) -> str:
        return self.name


def _annotations(question: Question) -> tuple[tuple[tuple[str, ...], ...], ...]:
    return question.annotations or (question.answers,)


def is_multi(question: Question) -> bool:
    """Return whether every annotator gave several answers: AmbigQA's multi-answer questions."""
    return all(len(answers) > 1 for answers in _annotations(question))


def answer_f1(question: Question, given: Sequence[str]) -> float:
    """Return the F1 of the given answers against the annotator they agree with best.

    Each gold answer matches at most one given answer, so repeated answers reduce precision.

    >>> question = Question("1", "Mark on Roseanne?", (("Glenn Quinn",), ("Ames McNamara",)))
    >>> answer_f1(question, ["glenn quinn."])  # precision 1, recall 1/2
    0.6666666666666666
    """
    scores = (2 * matched(a, given) / max(1, len(a) + len(given)) for a in _annotations(question))
    return max(scores, default=0.0)


def matched(answers: Sequence[Sequence[str]], given: Sequence[str]) -> int:
    """Return how many gold answers are given: each, in turn, by the first answer still free."""
    free = [normalize_answer(answer) for answer in given]
    hits = 0
    for aliases in answers:
        accepted = {normalize_answer(alias) for alias in aliases}
        match = next((answer for answer in free if answer in accepted), None)
        if match is not None:
            free.remove(match)
            hits += 1
    return hits


def exact_match(question: Question, given: Sequence[str]) -> float:
    """Return 1 if the first given answer is any accepted answer, as for NQ-open."""
    accepted = {normalize_answer(a) for answers in question.answers for a in answers}
    return float(bool(given) and normalize_answer(given[0]) in accepted)


AnswerF1 = AnswerMeasure("AnswerF1", answer_f1)
EM = AnswerMeasure("EM", exact_match, binary=True)
