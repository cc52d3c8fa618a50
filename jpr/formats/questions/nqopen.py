"""NQ-open and its likes: `{"question", "answer": [alias, …]}`; a flat list is ONE answer.

The answers may stand under `answer` (NQ-open, EfficientQA, DrQA), `answers` (FiD, Atlas) or
`golden_answers` (FlashRAG); a list of lists holds distinct answers. `id` is used where there is
one, otherwise questions are numbered from 0.
"""

from collections.abc import Iterable
from typing import TextIO

from jpr.formats.format import Format, Head
from jpr.formats.gold import Row, json_line
from jpr.formats.questions import own, webqsp
from jpr.formats.questions.dpr import is_curatedtrec, only_answer
from jpr.formats.questions.rows import from_lines, ranks
from jpr.types import Question

_KEYS = ("answers", "golden_answers", "answer")


def looks_like_nqopen(head: Head) -> bool:
    """Tell whether the first record has a question and strings, or lists of them, as answers."""
    if not head.has("question") or not isinstance(head.value["question"], str):
        return False
    answers = next((head.value[key] for key in _KEYS if head.has(key)), None)
    listed = answers if isinstance(answers, list) else [answers]
    flat = [alias for item in listed for alias in (item if isinstance(item, list) else [item])]
    return answers is not None and all(isinstance(alias, str) for alias in flat)


def _sniff(head: Head) -> bool:
    others = own.FORMAT.sniff(head) or webqsp.SIMPLE.sniff(head) or head.has("annotations")
    return looks_like_nqopen(head) and not (others or ranks(head) or is_curatedtrec(head))


def answers_row(row: Row) -> Row:
    """Return the answers, under whichever key they stand."""
    return row.at(row.first(_KEYS) or "answer")


def _question(row: Row) -> Question:
    return Question(row.id_or_position("id"), row.text("question"), answers_row(row).answers())


def _write(questions: Iterable[Question], stream: TextIO) -> None:
    for question in questions:
        answer = only_answer(question, "nq-open")
        stream.write(json_line({"id": question.id, "question": question.text, "answer": answer}))


FORMAT = Format(
    "nq-open",
    "NQ-open, EfficientQA, FlashRAG: JSON lines with question and a list of the answer's aliases",
    _sniff,
    from_lines(_question),
    _write,
)
