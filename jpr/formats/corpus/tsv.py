"""Passages as tab-separated lines (docs/formats.md): DPR's, the same without header, MS MARCO's."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TextIO

from jpr.errors import DataError, FormatError
from jpr.formats.format import Head, Located, file_format
from jpr.io.text_files import read_lines
from jpr.types import NO_META, Passage

_DPR_COLUMNS = ("id", "text", "title")
_FIELD = re.compile(r'(?:((?!")[^\t]*+)|"([^"]*+(?:""[^"]*+)*+)")(\t|\Z)')
_OPEN = re.compile(r'"[^"]*+(?:""[^"]*+)*+\Z')
_BREAK = re.compile(r"[\t\r\n]")
_LIST = re.compile(r"""\s*\[\s*["'\]]""")
_LINES_IN_FIELD = 1000
_QUOTES_HINT = (
    "double the quotes inside a field; if quotes are ordinary characters, convert with --from tsv"
)


def _is_header(columns: list[str]) -> bool:
    return set(_DPR_COLUMNS) <= set(columns)


def _csv_fields(path: Path, line: int, text: str, lines: Iterator[tuple[int, str]]) -> list[str]:
    """Split a row by csv's rules, reading more lines while a field with quotes is open."""
    fields: list[str] = []
    at, more = 0, islice(lines, _LINES_IN_FIELD)
    while True:
        if field := _FIELD.match(text, at):
            plain, quoted, tab = field.groups()
            fields.append(plain if quoted is None else quoted.replace('""', '"'))
            if not tab:
                return fields
            at = field.end()
        elif not _OPEN.match(text, at):
            raise FormatError(path, line, f"text follows a closing quote; {_QUOTES_HINT}")
        elif (following := next(more, None)) is None:
            problem = f"a quote opens a field and nothing closes it; {_QUOTES_HINT}"
            raise FormatError(path, line, problem)
        else:
            text = f"{text}\n{following[1]}"


def _checked_id(path: Path, line: int, id: str) -> str:
    if not id.strip():
        raise FormatError(path, line, "the id is empty; give every passage one")
    return id


def _write_dpr(passages: Iterable[Passage], stream: TextIO) -> None:
    stream.write("\t".join(_DPR_COLUMNS) + "\n")
    for passage in passages:
        fields = (passage.id, passage.text, passage.title)
        quoted = ('"' + one.replace('"', '""') + '"' if '"' in one else one for one in fields)
        stream.write(_row(passage, quoted))


def _row(passage: Passage, fields: Iterable[str]) -> str:
    row = "\t".join(_BREAK.sub(" ", field) for field in fields) + "\n"
    try:
        row.encode()
    except UnicodeEncodeError as error:
        problem = f"passage {passage.id!r} holds half a character ({row[error.start]!r})"
        raise DataError(f"{problem}; repair it, or write a JSON format such as beir") from error
    return row


def _sniff_dpr(head: Head) -> bool:
    return _is_header([column.strip('"') for column in head.line.split("\t")])


@file_format("dpr", _sniff_dpr, _write_dpr)
def _dpr(path: Path) -> Located[Passage]:
    """DPR's psgs_w100.tsv: a header id, text, title; fields with quotes are quoted as in csv."""
    lines = read_lines(path)
    rows = (
        (line, _csv_fields(path, line, text, lines) if '"' in text else text.split("\t"))
        for line, text in lines
        if text.strip()
    )
    line, names = next(rows, (0, None))
    if names is None:
        return  # every format refuses an empty file with the same words
    if not _is_header(names) or len(set(names)) < len(names):
        raise FormatError(path, line, "expected a header with columns id, text and title")
    for line, fields in rows:
        if len(fields) != len(names):
            problem = f"{len(fields)} columns instead of the header's {len(names)}"
            raise FormatError(path, line, f"{problem}; {_QUOTES_HINT}")
        meta = dict(zip(names, fields, strict=True))
        id, body, title = (meta.pop(column) for column in _DPR_COLUMNS)
        yield line, Passage(_checked_id(path, line, id), title, body, meta)


def _is_prose(head: Head, counts: Sequence[int]) -> bool:
    """Return whether the first line is a passage's, not of a run, of judgements or of questions."""
    columns = head.line.split("\t")
    if len(columns) not in counts or head.value is not None:
        return False
    id, text = columns[:2]
    named = bool(id) and not any(map(str.isspace, id))
    return named and len(text.split(maxsplit=1)) == 2 and not any(map(_LIST.match, columns[1:]))


def _rows(path: Path, counts: Sequence[int], names: str) -> Iterator[tuple[int, list[str]]]:
    for line, text in read_lines(path):
        columns = text.split("\t")
        if len(columns) in counts:
            yield line, columns
        elif text.strip():
            problem = f"{len(columns)} columns instead of {names}"
            raise FormatError(path, line, f"{problem}; separate them by single tabs")


def _write_plain(passages: Iterable[Passage], stream: TextIO) -> None:
    for passage in passages:
        fields = [passage.id, passage.text, passage.title]
        if "source" in passage.meta:
            fields.append(str(passage.meta["source"]))
        stream.write(_row(passage, fields))


@file_format("tsv", lambda head: _is_prose(head, (3, 4)), _write_plain)
def _tsv(path: Path) -> Located[Passage]:
    """tab-separated id, text, title, optionally source; no header; quotes are plain characters."""
    for line, columns in _rows(path, (3, 4), "id, text, title and optionally source"):
        if line == 1 and _is_header(columns):
            continue
        meta = {"source": columns[3]} if len(columns) == 4 and columns[3] else NO_META
        yield line, Passage(_checked_id(path, line, columns[0]), columns[2], columns[1], meta)


@file_format("msmarco", lambda head: _is_prose(head, (2,)))
def _msmarco(path: Path) -> Located[Passage]:
    """MS MARCO's collection.tsv: id and passage."""
    for line, (id, text) in _rows(path, (2,), "an id and a passage"):
        yield line, Passage(_checked_id(path, line, id), "", text)


FORMATS = (_dpr, _tsv, _msmarco)
