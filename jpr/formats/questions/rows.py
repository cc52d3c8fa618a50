"""From the rows of a file to questions."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path

from jpr.formats.format import Head, Located
from jpr.formats.gold import Row, json_documents, json_rows
from jpr.io.text_files import read_lines
from jpr.types import Question

Read = Callable[[Path], Located[Question]]

_RANKED = ("ctxs", "contexts", "candidates", "passages", "positive_ctxs")


def ranks(head: Head) -> bool:
    """Tell whether the first record comes with passages: the file is then a ranking."""
    return any(head.has(key) for key in _RANKED)


def from_lines(question_of: Callable[[Row], Question]) -> Read:
    """Make a reader of JSON lines or of a JSON array."""

    def read(path: Path) -> Located[Question]:
        return read_rows(json_rows(path), question_of)

    return read


def from_document(key: str, question_of: Callable[[Row], Question]) -> Read:
    """Make a reader of one JSON document that lists its questions under a key."""

    def read(path: Path) -> Located[Question]:
        for document in json_documents(path):
            yield from read_rows(document.at(key).each(), question_of)

    return read


def line_rows(path: Path) -> Iterator[Row]:
    """Yield the lines of a file that are not blank."""
    lines = (located for located in read_lines(path) if located[1].strip())
    for position, (number, line) in enumerate(lines):
        yield Row(line, path, number, position)


def read_rows(rows: Iterable[Row], question_of: Callable[[Row], Question]) -> Located[Question]:
    """Yield a question per row; one without a line is named by its number from 1."""
    for row in rows:
        with nullcontext() if row.line else row.within(f"question {row.position + 1}"):
            question = question_of(row)
        yield row.line, question
