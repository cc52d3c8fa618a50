"""KILT: `{"id", "input", "output": [{"answer", "provenance"}]}`; all outputs are ONE answer.

An output may give provenance without an answer; a test file has no outputs and `answers` is empty.
"""

from jpr.formats.format import Format, Head
from jpr.formats.gold import Row
from jpr.formats.questions.rows import from_lines
from jpr.types import Question


def _sniff(head: Head) -> bool:
    return head.has("id", "input")


def _question(row: Row) -> Question:
    outputs = row.at("output").each() if row.has("output") else ()
    given = [output.at("answer").aliases() for output in outputs if output.has("answer")]
    aliases = tuple(dict.fromkeys(alias for each in given for alias in each))
    return Question(row.id("id"), row.text("input"), (aliases,) if aliases else ())


FORMAT = Format(
    "kilt",
    "KILT: JSON lines with input and output",
    _sniff,
    from_lines(_question),
)
