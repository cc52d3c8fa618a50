"""The question that a run's record repeats, with what the record says of its answers.

`answers` may be a flat list (DPR, FiD), a list of lists (ours) or a list of those, one for each
annotator (AmbigPrompt). `annotations` holds each annotator's answers, as AmbigNQ's objects
(RECTIFY) or as our lists; they replace a flat list, which cannot tell answers apart. FiD's
`target` counts only where there is nothing else.
"""

from jpr.formats.format import Head
from jpr.formats.gold import Answers, Row, is_nested, united
from jpr.types import Question

QUESTION_IDS = ("id", "q_id", "question_id", "qid", "query_id", "_id")
_ANSWERS = ("answers", "answer", "target")


def question_of(row: Row) -> Question:
    """Read the question; without an id its text is its id."""
    text = row.text("question")
    answers, annotations = _gold(row)
    return Question(
        id=question_id(row) or text,
        text=text,
        answers=answers,
        annotations=annotations,
        regex=row.optional_text("regex"),
    )


def question_id(row: Row) -> str:
    """Return the id of the question under whichever key it stands, "" where there is none."""
    key = row.first(QUESTION_IDS)
    return row.id(key) if key else ""


def _gold(row: Row) -> tuple[Answers, tuple[Answers, ...]]:
    annotations = row.at("annotations").annotations() if row.has("annotations") else ()
    key = row.first(_ANSWERS)
    if not key:
        return united(annotations)
    given = row.at(key)
    if _by_annotator(given):
        return united(given.annotations())
    answers = given.answers()
    if annotations and not (answers and is_nested(given.value)):
        return united(annotations)
    return answers, annotations


def _by_annotator(row: Row) -> bool:
    return is_nested(row.value) and any(
        isinstance(item, list) for items in row.value for item in items
    )


def has_entities(head: Head) -> bool:
    """Tell whether the answers are objects: those are WebQSP's questions, whatever else is there.

    GraftNet's files of them have `passages` as Atlas's runs do.
    """
    answers = head.value["answers"] if head.has("answers") else None
    return isinstance(answers, list) and any(isinstance(answer, dict) for answer in answers)
