"""Join a run, or predictions, with the questions they answer and with the texts of a corpus.

Questions are matched by id or, failing that, by their text, stripped and case-folded, if only one
question has it. A question that the run lacks gets an empty ranking, so that no average silently
leaves it out. If an id matches, the texts must agree too, up to case, punctuation, accents and
white space: ids may be plain numbers, which every data set has.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Generic, TypeVar

from jpr.errors import DataError
from jpr.text import decomposed
from jpr.types import Hit, Passage, Prediction, Question, Ranking

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Alignment(Generic[T]):
    """A run, or predictions, in the order of the questions, and what did not match."""

    items: tuple[T, ...]
    """One for each question."""
    missing: tuple[str, ...]
    """Ids of questions without a ranking or prediction; their items are empty."""
    unknown: tuple[str, ...]
    """Ids of rankings or predictions whose question is not among the questions."""
    differing: tuple[str, ...] = ()
    """Ids of questions whose text differs in the run; they are matched nevertheless."""


def align(questions: Sequence[Question], rankings: Iterable[Ranking]) -> Alignment[Ranking]:
    """Give each question its ranking, with the gold question in it."""
    matches = _Matches[Ranking](questions, "ranking")
    for ranking in rankings:
        check_unique_passages(ranking)
        matches.add(ranking.question.id, ranking.question.text, ranking)
    return matches.alignment(lambda question, found: Ranking(question, found.hits if found else ()))


def align_predictions(
    questions: Sequence[Question], predictions: Iterable[Prediction]
) -> Alignment[Prediction]:
    """Give each question its prediction; ids of predictions may be texts of questions."""
    matches = _Matches[Prediction](questions, "prediction")
    for prediction in predictions:
        matches.add(prediction.id, "", prediction)
    return matches.alignment(
        lambda question, found: Prediction(question.id, found.answers if found else ())
    )


def check_unique_passages(ranking: Ranking) -> None:
    """Refuse a ranking that holds a passage twice, which would distort every measure."""
    ids = [hit.passage.id for hit in ranking.hits]
    if len(set(ids)) < len(ids):
        id, times = Counter(ids).most_common(1)[0]
        problem = f"passage {id!r} comes {times} times in its ranking; keep the first of each"
        raise DataError(f"question {ranking.question.id!r}: {problem}")


class _Matches(Generic[T]):
    """Rankings or predictions by question."""

    def __init__(self, questions: Sequence[Question], kind: str) -> None:
        self._kind = kind
        self._questions = {question.id: question for question in questions}
        if len(self._questions) < len(questions):
            id, times = Counter(question.id for question in questions).most_common(1)[0]
            raise DataError(f"{times} questions have the id {id!r}; ids must differ")
        texts = [_folded(question.text) for question in questions]
        counts = Counter(texts)
        ids = zip(texts, self._questions, strict=True)
        self._by_text = {text: id for text, id in ids if text and counts[text] == 1}
        self._found: dict[str, T] = {}
        self._unknown: list[str] = []
        self._n_compared = 0
        self._differing: dict[str, str] = {}  # id -> the text in the run

    def add(self, id: str, text: str, item: T) -> None:
        of_text = self._by_text.get(_folded(text or id))
        question = id if id in self._questions else of_text
        if question is None:
            self._unknown.append(id)
            return
        if question == id and text.strip():
            self._compare(id, text, of_text)
        if question in self._found:
            raise DataError(f"question {question!r} comes twice in the run; keep one of the two")
        self._found[question] = item

    def _compare(self, id: str, text: str, of_text: str | None) -> None:
        gold = self._questions[id].text
        self._n_compared += bool(gold.strip())
        if _loose(text) == _loose(gold):
            return
        if of_text is not None:
            raise DataError(
                f"the {self._kind} with id {id!r} has the text of question {of_text!r}; its ids "
                "number other questions: remove them, and the texts will be matched"
            )
        if gold.strip():
            self._differing[id] = text

    def alignment(self, make: Callable[[Question, T | None], T]) -> Alignment[T]:
        self._check()
        return Alignment(
            tuple(make(question, self._found.get(id)) for id, question in self._questions.items()),
            tuple(id for id in self._questions if id not in self._found),
            tuple(self._unknown),
            tuple(self._differing),
        )

    def _check(self) -> None:
        if not self._found:
            raise DataError(
                f"no {self._kind} belongs to any question: the questions have ids like "
                f"{_examples(self._questions)}, the {self._kind}s {_examples(self._unknown)}; "
                "are they of the same data set?"
            )
        if 2 * len(self._differing) > self._n_compared:
            id, text = next(iter(self._differing.items()))
            raise DataError(
                f"ids agree but the questions' texts differ for {len(self._differing)} of "
                f"{self._n_compared}, e.g. {text!r:.60} against {self._questions[id].text!r:.60}; "
                "are they of the same data set?"
            )


def _folded(text: str) -> str:
    return text.strip().casefold()


def _loose(text: str) -> str:
    """Return the letters and digits: files differ in quotes, spaces and question marks."""
    return "".join(filter(str.isalnum, decomposed(_folded(text), "NFKD")))


def _examples(ids: Iterable[str]) -> str:
    return ", ".join(f"{id!r:.60}" for id in islice(ids, 3)) or "(there are none)"


def fill_texts(rankings: Iterable[Ranking], passages: Iterable[Passage]) -> list[Ranking]:
    """Give every passage that is only an id its title, text and meta from the corpus.

    The corpus is read once, no further than needed, and memory holds only the passages of the run.

    >>> from jpr.types import Question
    >>> run = [Ranking(Question("q", "?"), (Hit(Passage("7", "", ""), 1.0),))]
    >>> fill_texts(run, [Passage("7", "Moon", "It shines.")])[0].hits[0].passage.text
    'It shines.'
    """
    run = list(rankings)
    texts = texts_for(run, passages)
    absent = _bare_ids(run) - texts.keys()
    if absent:
        raise DataError(
            f"{len(absent)} of {len(texts) + len(absent)} passages of the run are not in the "
            f"corpus, e.g. {min(absent)!r}; is it the corpus that the run was made with?"
        )
    return [replace(one, hits=tuple(_filled(hit, texts) for hit in one.hits)) for one in run]


def texts_for(rankings: Iterable[Ranking], passages: Iterable[Passage]) -> dict[str, Passage]:
    """Return the passages, by id, of which the rankings hold only the ids."""
    ids = _bare_ids(rankings)
    found = ((passage.id, passage) for passage in passages if passage.id in ids)
    return dict(islice(found, len(ids)))


def _bare_ids(rankings: Iterable[Ranking]) -> set[str]:
    return {hit.passage.id for r in rankings for hit in r.hits if hit.passage.is_bare}


def _filled(hit: Hit, texts: dict[str, Passage]) -> Hit:
    if not hit.passage.is_bare:
        return hit
    known = texts[hit.passage.id]
    if hit.passage.meta:
        known = replace(known, meta={**known.meta, **hit.passage.meta})
    return Hit(known, hit.score)
