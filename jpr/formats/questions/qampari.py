"""QAMPARI: `{"qid", "question_text", "answer_list": [{"answer_text", "aliases"}]}`.

Every item of `answer_list` is a distinct answer: its text first, then its aliases.
"""

from jpr.formats.format import Format, Head
from jpr.formats.gold import Aliases, Row
from jpr.formats.questions.rows import from_lines
from jpr.types import Question


def _sniff(head: Head) -> bool:
    return head.has("qid", "question_text", "answer_list")


def _question(row: Row) -> Question:
    answers = map(_answer, row.at("answer_list").each())
    return Question(row.id("qid"), row.text("question_text"), tuple(filter(None, answers)))


def _answer(row: Row) -> Aliases:
    others = row.at("aliases").aliases() if row.has("aliases") else ()
    return tuple(dict.fromkeys((*row.at("answer_text").aliases(), *others)))


FORMAT = Format(
    "qampari",
    "QAMPARI: JSON lines with question_text and answer_list",
    _sniff,
    from_lines(_question),
)
