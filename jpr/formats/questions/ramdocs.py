"""RAMDocs: `{"question", "gold_answers": [answer, …], "wrong_answers", "documents"}`.

Every gold answer is a distinct answer; equal ones after normalisation are one. Wrong answers and
documents are left out. Questions are numbered from 0.
"""

from jpr.formats.format import Format, Head
from jpr.formats.gold import Row, merged
from jpr.formats.questions.rows import from_lines
from jpr.types import Question


def _sniff(head: Head) -> bool:
    return head.has("question", "gold_answers")


def _question(row: Row) -> Question:
    answers = merged(row.at("gold_answers").distinct())
    return Question(row.id_or_position("id"), row.text("question"), answers)


FORMAT = Format(
    "ramdocs",
    "RAMDocs: JSON lines with gold_answers beside wrong_answers",
    _sniff,
    from_lines(_question),
)
