"""How long a question may be that is asked of models and indexes; files may hold longer ones."""

from collections.abc import Iterable

from jpr.errors import DataError
from jpr.types import Question

LONGEST = 10_000
"""Characters of a question."""
_ID = 60
"""Characters of an id in a message: where a file gives none, it is the question itself."""


def check_length(text: str, named: str = "the question") -> None:
    """Refuse a question as long as a book."""
    if len(text) > LONGEST:
        raise DataError(f"{named} has {len(text):,} characters; ask in at most {LONGEST:,}")


def check_lengths(questions: Iterable[Question]) -> None:
    """Do the same for questions of a file."""
    for question in questions:
        check_length(question.text, f"question {question.id[:_ID]!r}")
