"""Questions with their distinct answers, from any data set the field uses."""

from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

from jpr.formats.format import Format, formats_in, read_records, write_records
from jpr.types import Question

FORMATS: tuple[Format[Question], ...] = formats_in(
    __name__,
    "own",
    "ambigqa",
    "webqsp",
    "curatedtrec",
    "nqopen",
    "dpr",
    "qampari",
    "qald",
    "asqa",
    "multispanqa",
    "ramdocs",
    "kilt",
)


def load_questions(path: str | Path, format: str | None = None) -> list[Question]:
    """Read all questions of a file, whose format is recognised unless it is named."""
    return list(read_records(Path(path), FORMATS, format, key=lambda question: question.id))


def write_questions(questions: Iterable[Question], stream: TextIO, format: str = "jpr") -> None:
    """Write questions in a format that can hold them."""
    write_records(questions, stream, FORMATS, format)
