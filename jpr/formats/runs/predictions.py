"""Predicted answers, for F1 and EM (docs/formats.md).

A record without an id uses the question's text as its id. A question with a list of answers may
also be a gold file: it is read as `answers` only if that format is named.
"""

from pathlib import Path

from jpr.formats.format import Head, RecordKind
from jpr.formats.gold import Row, json_format, rows_by_id
from jpr.formats.runs.json_runs import QUESTION_IDS, TEXTS, question_id
from jpr.types import Prediction

_NAMES = (*QUESTION_IDS, "question", "answers", "prediction", "query", "ctxs", "title", *TEXTS)
"""Keys of a record, in contrast to an object whose keys are the ids of questions."""


def _texts(row: Row) -> tuple[str, ...]:
    texts = []
    for item in row.each() if isinstance(row.value, list) else [row]:
        text = item.value
        if isinstance(text, dict):
            text = text.get("text", text.get("answer"))
        if not isinstance(text, str):
            problem = "an answer should be a string or an object with 'text'"
            raise item.error(f"{problem}, not {item.value!r:.40}")
        texts.append(text)
    return tuple(texts)


def _are_answers(value: object) -> bool:
    listed = value if isinstance(value, list) else [value]
    return all(
        isinstance(item, str) or (isinstance(item, dict) and ("text" in item or "answer" in item))
        for item in listed
    )


def _sniff_answers(head: Head) -> bool:
    others = head.has_any("question", "prediction", "ctxs")
    return not others and head.has(answers=list) and _are_answers(head.value["answers"])


@json_format("answers", _sniff_answers)
def _answers(row: Row) -> Prediction:
    """our own: JSON lines with id and answers, a list of strings or of objects with text."""
    return Prediction(question_id(row), _texts(row.at("answers")))


@json_format("nq", lambda head: head.has("prediction"))
def _nq(row: Row) -> Prediction:
    """an EfficientQA submission: JSON lines with question and prediction."""
    return Prediction(question_id(row), _texts(row.at("prediction")))


def _sniff_ambigqa(head: Head) -> bool:
    if not isinstance(head.value, dict) or not head.value or head.has_any(*_NAMES):
        return False
    return all(map(_are_answers, head.value.values()))


@json_format("ambigqa", _sniff_ambigqa, rows=rows_by_id)
def _ambigqa(row: Row) -> Prediction:
    """an AmbigQA submission: one JSON object, id -> list of answers."""
    return Prediction(row.name, _texts(row))


KIND = RecordKind("answers", (_answers, _ambigqa, _nq), lambda prediction: prediction.id)


def load_predictions(path: str | Path, format: str | None = None) -> list[Prediction]:
    """Read all predictions of a file; its format is recognized unless it is named."""
    return list(KIND.read(path, format))
