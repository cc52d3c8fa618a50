"""Question sets in tab-separated lines (docs/formats.md): DPR's and CuratedTREC's.

A list of answers is parsed as JSON or as a Python literal, never evaluated. CuratedTREC's lists of
expressions look like files of plain answers, so they are recognized by the file's name. Questions
without an id are numbered from 0.
"""

import ast
import csv
import json
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from jpr.formats.format import Head, Located, file_format
from jpr.formats.gold import Row, json_format, json_rows, read_rows
from jpr.formats.questions.json_lines import (
    is_curatedtrec,
    looks_like_nqopen,
    nq_answers,
    only_answer,
)
from jpr.io.text_files import read_lines
from jpr.types import Question

_LONGEST = 1 << 17  # characters of a list; Python's parser is not for more, and no data set has it
_SECOND = "the second column"


def _line_rows(path: Path) -> Iterator[Row]:
    lines = (located for located in read_lines(path) if located[1].strip())
    for position, (number, line) in enumerate(lines):
        yield Row(line, path, number, position)


def _two_columns(line: str) -> tuple[str, str] | None:
    """Split a line as DPR's csv reader does: tabs, and quotes around a column that holds quotes."""
    try:
        columns = next(csv.reader([line], delimiter="\t"))
    except csv.Error:
        columns = []
    if len(columns) != 2:
        columns = line.split("\t")  # a question that only begins with a quotation mark
    return (columns[0], columns[1]) if len(columns) == 2 else None


def parse_list(text: str) -> list[object] | None:
    """Parse a list written as JSON or as Python writes it; None if it is not one.

    >>> parse_list('["a", null]'), parse_list("['it''s']"), parse_list("[f()]")
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


def _has_list(head: Head) -> bool:
    columns = _two_columns(head.line)
    return columns is not None and parse_list(columns[1]) is not None


def _write_dpr(questions: Iterable[Question], stream: TextIO) -> None:
    writer = csv.writer(stream, delimiter="\t", lineterminator="\n")
    for question in questions:
        aliases = only_answer(question, "dpr-csv")
        writer.writerow((" ".join(question.text.split()), repr(list(aliases))))


def _sniff_dpr(head: Head) -> bool:
    return _has_list(head) and not is_curatedtrec(head)


@json_format("dpr-csv", _sniff_dpr, _write_dpr, _line_rows)
def _dpr_csv(row: Row) -> Question:
    """DPR's qas.csv: question, tab, list of the answer's aliases."""
    columns = _two_columns(row.value)
    if columns is None:
        count = row.value.count("\t") + 1
        raise row.error(f"{count} columns instead of 2; separate question and list by one tab")
    answers = parse_list(columns[1])
    if answers is None:
        raise row.error(f"{_SECOND} should be a list such as ['Paris', 'City of Light']")
    listed = replace(row, value=answers, name=_SECOND)
    return Question(str(row.position), columns[0], listed.answers())


def _sniff_trec(head: Head) -> bool:
    if looks_like_nqopen(head) or _has_list(head):
        return is_curatedtrec(head)
    columns = head.columns()
    if len(columns) == 4:
        return columns[1].isalpha() and columns[2].rstrip().endswith("?")
    return len(columns) == 2 and columns[0].rstrip().endswith("?")


@file_format("curatedtrec", _sniff_trec)
def _curatedtrec(path: Path) -> Located[Question]:
    """CuratedTREC: a question and its answer's regular expression, as tsv, DPR csv or DrQA JSON."""
    first = next((row.value for row in _line_rows(path)), "")
    if first.lstrip().startswith(("{", "[")):
        return read_rows(json_rows(path), _trec_json)
    return read_rows(_line_rows(path), _trec_tsv)


def _trec_json(row: Row) -> Question:
    regex = "|".join(nq_answers(row).aliases())
    return _trec(row, row.id_or_position("id"), row.text("question"), regex)


def _trec_tsv(row: Row) -> Question:
    columns = row.value.split("\t")
    if len(columns) == 4:
        return _trec(row, columns[0], columns[2], columns[3])
    if len(columns) != 2:
        raise row.error(f"{len(columns)} columns instead of 2 or 4; separate them by single tabs")
    text, regex = columns
    quoted = _two_columns(row.value)
    if quoted and (listed := parse_list(quoted[1])) is not None:
        text = quoted[0]
        regex = "|".join(replace(row, value=listed, name=_SECOND).aliases())
    return _trec(row, str(row.position), text, regex)


def _trec(row: Row, id: str, text: str, regex: str) -> Question:
    if not regex.strip():
        raise row.error("the expression is empty; every question needs one")
    return Question(id, text, regex=regex)


FORMATS = (_dpr_csv, _curatedtrec)
