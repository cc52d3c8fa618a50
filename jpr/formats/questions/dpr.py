"""DPR's `*.qas.csv`: `question<TAB>["alias", …]`, no ids; a flat list is ONE answer's aliases.

The list is read as JSON or as a Python literal, never evaluated; a list of lists holds distinct
answers. Questions are numbered from 0.
"""

import ast
import csv
import json
import warnings
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from jpr.errors import ConfigError
from jpr.formats.format import Format, Head, Located
from jpr.formats.gold import Aliases, Row
from jpr.formats.questions.rows import line_rows, read_rows
from jpr.types import Question

_LONGEST = 1 << 17  # characters of a list; Python's parser is not for more, and no data set has it


def two_columns(line: str) -> tuple[str, str] | None:
    """Split a line as DPR's csv reader does: tabs, and quotes around a column that holds quotes."""
    try:
        columns = next(csv.reader([line], delimiter="\t"))
    except csv.Error:
        columns = []
    if len(columns) != 2:
        columns = line.split("\t")  # a question that only begins with a quotation mark
    return (columns[0], columns[1]) if len(columns) == 2 else None


def written_list(text: str) -> list[object] | None:
    """Read a list written as JSON or as Python writes it; None where it is not one.

    >>> written_list('["a", null]'), written_list("['it''s']"), written_list("[f()]")
    (['a', None], ['its'], None)
    """
    if not text.startswith("[") or len(text) > _LONGEST:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = _literal(text)
    return value if isinstance(value, list) else None


def _literal(text: str) -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python warns of "\d"; it means what it says
        try:
            return ast.literal_eval(text)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            return None


def is_curatedtrec(head: Head) -> bool:
    """Tell by its name that a file has expressions where its look-alikes have answers."""
    name = head.path.name.lower().replace("-", "").replace("_", "")
    return "curatedtrec" in name


def has_written_list(head: Head) -> bool:
    """Tell whether the first line is a question and a list."""
    columns = two_columns(head.line)
    return columns is not None and written_list(columns[1]) is not None


def _sniff(head: Head) -> bool:
    return has_written_list(head) and not is_curatedtrec(head)


def _read(path: Path) -> Located[Question]:
    return read_rows(line_rows(path), _question)


def _question(row: Row) -> Question:
    columns = two_columns(row.value)
    if columns is None:
        count = row.value.count("\t") + 1
        raise row.error(f"{count} columns instead of 2; separate question and list by one tab")
    answers = written_list(columns[1])
    if answers is None:
        raise row.error("the second column should be a list such as ['Paris', 'City of Light']")
    listed = replace(row, value=answers, name="the second column")
    return Question(str(row.position), columns[0], listed.answers())


def only_answer(question: Question, format: str) -> Aliases:
    """Return the aliases of the one answer that a format can hold, or say that there are more."""
    if question.regex:
        raise ConfigError(
            f"question {question.id!r} is answered by an expression, which format {format!r} "
            "cannot hold; write format 'jpr'"
        )
    if len(question.answers) > 1:
        raise ConfigError(
            f"question {question.id!r} has {len(question.answers)} distinct answers, "
            f"format {format!r} holds one; write format 'jpr'"
        )
    return question.answers[0] if question.answers else ()


def _write(questions: Iterable[Question], stream: TextIO) -> None:
    writer = csv.writer(stream, delimiter="\t", lineterminator="\n")
    for question in questions:
        aliases = only_answer(question, "dpr-csv")
        writer.writerow((" ".join(question.text.split()), repr(list(aliases))))


FORMAT = Format(
    "dpr-csv",
    "DPR's qas.csv: question, tab, list of the answer's aliases",
    _sniff,
    _read,
    _write,
)
