"""Questions with their distinct answers, from any data set the field uses."""

from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

from jpr.errors import DataError
from jpr.formats.format import Formats, RecordKind
from jpr.types import Question

FORMATS = Formats[Question](__name__, "json_lines", "json_documents", "tab_separated")
KIND = RecordKind("questions", FORMATS, lambda question: question.id)
LONGEST_QUESTION = 10_000
"""Characters of a question for models and indexes; files may hold longer ones."""


def load_questions(path: str | Path, format: str | None = None) -> list[Question]:
    """Read all questions of a file; its format is recognized unless it is named."""
    return list(KIND.read(path, format))


def write_questions(questions: Iterable[Question], stream: TextIO, format: str = "jpr") -> None:
    """Write questions in a format that can hold them."""
    KIND.write(questions, stream, format)


def check_length(text: str, name: str = "the question") -> None:
    """Refuse a question that is too long."""
    if len(text) > LONGEST_QUESTION:
        limit = f"at most {LONGEST_QUESTION:,} are allowed"
        raise DataError(f"{name} has {len(text):,} characters; {limit}")


def check_lengths(questions: Iterable[Question]) -> None:
    """Do the same for the questions of a file."""
    for question in questions:
        check_length(question.text, f"question {question.id[:60]!r}")  # its text may be its id
