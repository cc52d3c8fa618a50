"""Question sets in tab-separated lines (docs/formats.md): DPR's and CuratedTREC's.

A line is first made a record. A list of answers is parsed as JSON or as a Python literal, never
evaluated. CuratedTREC's lists of expressions look like files of plain answers, so they are
recognized by the file's name. Questions without an id are numbered from 0.
"""

import ast
import csv
import json
import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from jpr.formats.format import Head
from jpr.formats.gold import Row, json_format, json_rows
from jpr.formats.questions import json_lines
from jpr.io.text_files import read_lines
from jpr.types import Question

_SECOND = "the second column"
_LONGEST = 1 << 17  # characters of a list; Python's parser is not for more, and no data set has it


def _line_rows(path: Path) -> Iterator[Row]:
    lines = (located for located in read_lines(path) if located[1].strip())
    for position, (number, line) in enumerate(lines):
        yield Row(line, path, number, position, _SECOND)


def _columns(line: str) -> list[str]:
    """Split a line as DPR's csv reader does: tabs, and quotes around a column that holds quotes."""
    try:
        columns = next(csv.reader([line], delimiter="\t"))
    except csv.Error:
        columns = []
    # otherwise a question that only begins with a quotation mark
    return columns if len(columns) == 2 else line.split("\t")


def parse_list(text: str) -> list[object] | None:
    """Parse a list written as JSON or as Python writes it; None if it is not one.

    >>> parse_list('["a", null]'), parse_list("['it''s']"), parse_list("[f()]")
    (['a', None], ['its'], None)
    """
    if not text.startswith("[") or len(text) > _LONGEST:
        return None
    with warnings.catch_warnings(action="ignore"):  # of "\d" in Python, which means what it says
        for parse in (json.loads, ast.literal_eval):
            with suppress(ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
                value = parse(text)
                return value if isinstance(value, list) else None
    return None


def _has_list(head: Head) -> bool:
    columns = _columns(head.line)
    return len(columns) == 2 and parse_list(columns[1]) is not None


def _write_dpr(questions: Iterable[Question], stream: TextIO) -> None:
    writer = csv.writer(stream, delimiter="\t", lineterminator="\n")
    for question in questions:
        aliases = json_lines.only_answer(question, "dpr-csv")
        writer.writerow((" ".join(question.text.split()), repr(list(aliases))))


def _sniff_dpr(head: Head) -> bool:
    return _has_list(head) and not json_lines.is_curatedtrec(head)


@json_format("dpr-csv", _sniff_dpr, _write_dpr, _line_rows)
def _dpr_csv(row: Row) -> Question:
    """DPR's qas.csv: question, tab, list of the answer's aliases."""
    columns = _columns(row.value)
    if len(columns) != 2:
        problem = f"{len(columns)} columns instead of 2"
        raise row.error(f"{problem}; separate question and list by one tab")
    answers = parse_list(columns[1])
    if answers is None:
        raise row.error(f"{_SECOND} should be a list such as ['Paris', 'City of Light']")
    return Question(str(row.position), columns[0], replace(row, value=answers).answers())


def _sniff_trec(head: Head) -> bool:
    if json_lines.looks_like_nqopen(head) or _has_list(head):
        return json_lines.is_curatedtrec(head)
    columns = head.line.split("\t")
    if len(columns) == 4:
        return columns[1].isalpha() and columns[2].rstrip().endswith("?")
    return len(columns) == 2 and columns[0].rstrip().endswith("?")


def _trec_rows(path: Path) -> Iterator[Row]:
    first = next((row.value for row in _line_rows(path)), "")
    if first.lstrip().startswith(("{", "[")):
        return json_rows(path)
    return (replace(row, value=_trec_record(row)) for row in _line_rows(path))


def _trec_record(row: Row) -> dict[str, object]:
    columns = row.value.split("\t")
    if len(columns) == 4:
        return {"id": columns[0], "question": columns[2], _SECOND: columns[3]}
    if len(columns) != 2:
        problem = f"{len(columns)} columns instead of 2 or 4"
        raise row.error(f"{problem}; separate them by single tabs")
    question, text = _columns(row.value)
    expressions = parse_list(text)
    if expressions is None:  # an expression is not quoted
        return {"question": columns[0], _SECOND: columns[1]}
    return {"question": question, _SECOND: expressions}


@json_format("curatedtrec", _sniff_trec, rows=_trec_rows)
def _curatedtrec(row: Row) -> Question:
    """CuratedTREC: a question and its answer's regular expression, as tsv, DPR csv or DrQA JSON."""
    given = row.at(_SECOND) if row.has(_SECOND) else json_lines.nq_answers(row)
    regex = "|".join(given.aliases())
    if not regex:
        raise row.error("the expression is empty; every question needs one")
    return Question(row.id_or_position("id"), row.text("question"), regex=regex)


FORMATS = (_dpr_csv, _curatedtrec)
