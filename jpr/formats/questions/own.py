"""Our own JSON lines: `{"id", "question", "answers": [[alias, …], …]}`, an inner list per answer.

`annotations` holds each annotator's answers where there were several, `regex` an expression.
"""

from collections.abc import Iterable
from typing import TextIO

from jpr.formats.format import Format, Head
from jpr.formats.gold import Row, is_nested, json_line, question_record
from jpr.formats.questions.rows import from_lines, ranks
from jpr.types import Question


def _sniff(head: Head) -> bool:
    if not head.has("id", "question", "answers") or ranks(head):
        return False
    answers = head.value["answers"]
    if not answers and head.has("entities"):
        return False  # a question of WebQSP without an answer
    annotations = head.value.get("annotations") or []
    return is_nested(answers) and is_nested(annotations)


def _question(row: Row) -> Question:
    return Question(
        id=row.id("id"),
        text=row.text("question"),
        answers=row.at("answers").nested(),
        annotations=row.at("annotations").annotations() if row.has("annotations") else (),
        regex=row.optional_text("regex"),
    )


def _write(questions: Iterable[Question], stream: TextIO) -> None:
    for question in questions:
        stream.write(json_line(question_record(question)))


FORMAT = Format(
    "jpr",
    "our own questions: JSON lines with id, question, answers as lists of aliases",
    _sniff,
    from_lines(_question),
    _write,
)
