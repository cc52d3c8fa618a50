"""Our own JSON lines: `{"id", "question", "answers": [[alias, …], …]}`, an inner list per answer.

`annotations` holds each annotator's answers where there were several, `regex` an expression.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

from jpr.errors import FormatError
from jpr.files import read_json
from jpr.formats import Format, Head, Located, field_of
from jpr.types import Question


def _sniff(head: Head) -> bool:
    if not head.has("id", "question", "answers") or head.has("ctxs"):
        return False
    answers = head.value["answers"]
    return isinstance(answers, list) and all(isinstance(aliases, list) for aliases in answers)


def _read(path: Path) -> Located[Question]:
    for line, record in read_json(path):
        yield (
            line,
            Question(
                id=str(field_of(record, "id", object, path, line)),
                text=field_of(record, "question", str, path, line),
                answers=answer_sets(field_of(record, "answers", list, path, line), path, line),
                annotations=tuple(
                    answer_sets(annotation, path, line)
                    for annotation in record.get("annotations", ())
                ),
                regex=record.get("regex", ""),
            ),
        )


def answer_sets(answers: object, path: Path, line: int) -> tuple[tuple[str, ...], ...]:
    """Check a list of distinct answers, each a list of accepted strings."""
    if not isinstance(answers, list):
        raise FormatError(path, line, "'answers' should be a list with one list per answer")
    for aliases in answers:
        if not isinstance(aliases, list) or not all(isinstance(alias, str) for alias in aliases):
            raise FormatError(
                path, line, "each answer should be a list of its accepted strings, [[alias, …], …]"
            )
    return tuple(tuple(aliases) for aliases in answers)


def _write(questions: Iterable[Question], stream: TextIO) -> None:
    for question in questions:
        record: dict[str, object] = {
            "id": question.id,
            "question": question.text,
            "answers": question.answers,
        }
        if question.annotations:
            record["annotations"] = question.annotations
        if question.regex:
            record["regex"] = question.regex
        stream.write(json.dumps(record, ensure_ascii=False) + "\n")


FORMAT = Format(
    "jpr",
    "our own questions: JSON lines with id, question, answers as lists of aliases",
    _sniff,
    _read,
    _write,
)
