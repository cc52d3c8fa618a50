"""Predicted answers, for F1 and EM (docs/formats.md).

A record without an id uses the question's text as its id. A question with a list of answers may
also be a gold file: it is read as `answers` only if that format is named.
"""

from pathlib import Path

from jpr.formats.format import Head, Located, file_format, read_records
from jpr.formats.gold import Row, json_documents, json_format
from jpr.formats.runs.records import QUESTION_IDS, TEXTS, question_id
from jpr.types import Prediction


def load_predictions(path: str | Path, format: str | None = None) -> list[Prediction]:
    """Read all predictions of a file; its format is recognized unless it is named."""
    records = read_records(Path(path), FORMATS, format, key=lambda prediction: prediction.id)
    return list(records)


def _texts(row: Row) -> tuple[str, ...]:
    return tuple(map(_text, row.each() if isinstance(row.value, list) else [row]))


def _text(row: Row) -> str:
    text = row.value
    if isinstance(text, dict):
        text = text.get("text", text.get("answer"))
    if isinstance(text, str):
        return text
    problem = "an answer should be a string or an object with 'text'"
    raise row.error(f"{problem}, not {row.value!r:.40}")


def _prediction(row: Row, key: str) -> Prediction:
    answers = _texts(row.at(key))
    return Prediction(question_id(row) or row.text("question"), answers)


_NAMES = (*QUESTION_IDS, "question", "answers", "prediction", "query", "ctxs", "title", *TEXTS)
"""Keys of a record, in contrast to an object whose keys are the ids of questions."""


def _sniff_ambigqa(head: Head) -> bool:
    if not isinstance(head.value, dict) or not head.value:
        return False
    if any(key in head.value for key in _NAMES):
        return False
    return all(map(_are_answers, head.value.values()))


def _are_answers(value: object) -> bool:
    listed = value if isinstance(value, list) else [value]
    return all(
        isinstance(item, str) or (isinstance(item, dict) and ("text" in item or "answer" in item))
        for item in listed
    )


def _sniff_answers(head: Head) -> bool:
    if not head.has("answers") or any(head.has(key) for key in ("question", "prediction", "ctxs")):
        return False
    return _are_answers(head.value["answers"]) and isinstance(head.value["answers"], list)


@json_format("answers", _sniff_answers)
def _answers(row: Row) -> Prediction:
    """our own: JSON lines with id and answers, a list of strings or of objects with text."""
    return _prediction(row, "answers")


@file_format("ambigqa", _sniff_ambigqa)
def _ambigqa(path: Path) -> Located[Prediction]:
    """an AmbigQA submission: one JSON object, id -> list of answers."""
    for document in json_documents(path):
        for id, answers in document.items():
            with document.within(f"question {id!r}"):
                prediction = Prediction(id, _texts(answers))
            yield 0, prediction


@json_format("nq", lambda head: head.has("prediction"))
def _nq(row: Row) -> Prediction:
    """an EfficientQA submission: JSON lines with question and prediction."""
    return _prediction(row, "prediction")


FORMATS = (_answers, _ambigqa, _nq)
