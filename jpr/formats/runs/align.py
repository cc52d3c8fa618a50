"""Join a run, or predictions, with the questions they answer and with the texts of a corpus.

Questions are matched by id or, failing that, by their text, stripped and case-folded, if only one
question has it. A question that the run lacks gets an empty ranking, so that no average silently
leaves it out. If an id matches, the texts must agree too, up to case, punctuation, accents and
white space: ids may be plain numbers, which every data set has.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Generic, TypeVar

from jpr.errors import DataError
from jpr.text import decomposed
from jpr.types import Hit, Passage, Prediction, Question, Ranking

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Alignment(Generic[T]):
    """A run, or predictions, in the order of the questions, and what did not match."""

    items: tuple[T, ...]  # one for each question
    missing: tuple[str, ...]
    """Ids of questions without a ranking or prediction; their items are empty."""
    unknown: tuple[str, ...]
    """Ids of rankings or predictions whose question is not among the questions."""
    differing: tuple[str, ...] = ()
    """Ids of questions whose text differs in the run; they are matched nevertheless."""


def align(questions: Sequence[Question], rankings: Iterable[Ranking]) -> Alignment[Ranking]:
    """Give each question its ranking, with the gold question in it."""

    def given() -> Iterator[tuple[str, str, tuple[Hit, ...]]]:
        for ranking in rankings:
            check_unique_passages(ranking)
            yield ranking.question.id, ranking.question.text, ranking.hits

    return _aligned("ranking", questions, given(), Ranking)


def align_predictions(
    questions: Sequence[Question], predictions: Iterable[Prediction]
) -> Alignment[Prediction]:
    """Give each question its prediction; ids of predictions may be texts of questions."""
    given = ((prediction.id, "", prediction.answers) for prediction in predictions)
    return _aligned("prediction", questions, given, lambda one, found: Prediction(one.id, found))


def check_unique_passages(ranking: Ranking) -> None:
    """Refuse a ranking that holds a passage twice, which would distort every measure."""
    ids = [hit.passage.id for hit in ranking.hits]
    if len(set(ids)) < len(ids):
        id, times = Counter(ids).most_common(1)[0]
        problem = f"passage {id!r} comes {times} times in its ranking; keep the first of each"
        raise DataError(f"question {ranking.question.id!r}: {problem}")


def _aligned(
    kind: str,
    questions: Sequence[Question],
    given: Iterable[tuple[str, str, tuple[Any, ...]]],
    make: Callable[[Question, tuple[Any, ...]], T],
) -> Alignment[T]:
    """Match what is given, with the id and the text of its question, to the questions."""
    by_id = _by_id(questions)
    folded = [_folded(question.text) for question in questions]
    counts = Counter(folded)
    by_text = {
        text: id for id, text in zip(by_id, folded, strict=True) if text and counts[text] == 1
    }
    found: dict[str, tuple[Any, ...]] = {}
    differing: dict[str, str] = {}  # id -> the text in the run
    n_compared = 0
    unknown: list[str] = []
    for given_id, text, item in given:
        of_text = by_text.get(_folded(text or given_id))
        match = given_id if given_id in by_id else of_text
        if match is None:
            unknown.append(given_id)
            continue
        if match == given_id and text.strip():
            gold = by_id[match].text.strip()
            n_compared += bool(gold)
            if _differs(kind, given_id, text, gold, of_text) and gold:
                differing[match] = text
        if match in found:
            raise DataError(f"question {match!r} comes twice in the run; keep one of the two")
        found[match] = item
    if not found:
        raise DataError(
            f"no {kind} belongs to any question: the questions have ids like {_examples(by_id)}, "
            f"the {kind}s {_examples(unknown)}; are they of the same data set?"
        )
    if 2 * len(differing) > n_compared:
        id, text = next(iter(differing.items()))
        raise DataError(
            f"ids agree but the questions' texts differ for {len(differing)} of "
            f"{n_compared}, e.g. {text!r:.60} against {by_id[id].text!r:.60}; "
            "are they of the same data set?"
        )
    return Alignment(
        tuple(make(question, found.get(id, ())) for id, question in by_id.items()),
        tuple(id for id in by_id if id not in found),
        tuple(unknown),
        tuple(differing),
    )


def _by_id(questions: Sequence[Question]) -> dict[str, Question]:
    by_id = {question.id: question for question in questions}
    if len(by_id) < len(questions):
        id, times = Counter(question.id for question in questions).most_common(1)[0]
        raise DataError(f"{times} questions have the id {id!r}; ids must differ")
    return by_id


def _differs(kind: str, id: str, text: str, gold: str, of_text: str | None) -> bool:
    """Return whether a text differs from that of its question; refuse that of another question."""
    if _loose(text) == _loose(gold):
        return False
    if of_text is not None:
        raise DataError(
            f"the {kind} with id {id!r} has the text of question {of_text!r}; its ids "
            "number other questions: remove them, and the texts will be matched"
        )
    return True


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

    def filled(hit: Hit) -> Hit:
        if not hit.passage.is_bare:
            return hit
        known = texts[hit.passage.id]
        if hit.passage.meta:
            known = replace(known, meta={**known.meta, **hit.passage.meta})
        return Hit(known, hit.score)

    return [replace(one, hits=tuple(map(filled, one.hits))) for one in run]


def texts_for(rankings: Iterable[Ranking], passages: Iterable[Passage]) -> dict[str, Passage]:
    """Return the passages, by id, of which the rankings hold only the ids."""
    ids = _bare_ids(rankings)
    found = ((passage.id, passage) for passage in passages if passage.id in ids)
    return dict(islice(found, len(ids)))


def _bare_ids(rankings: Iterable[Ranking]) -> set[str]:
    return {hit.passage.id for r in rankings for hit in r.hits if hit.passage.is_bare}
