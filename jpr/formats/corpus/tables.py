"""The rows of .csv and .jsonl files.

A column called text (contents, content, body) is the row's text, and title or name its title; other
columns then are its meta. Where there is no such column, the text is all of them: "country: France;
capital: Paris". `row` of the meta counts from 1.
"""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from math import isfinite
from pathlib import Path

from jpr.errors import FormatError
from jpr.formats.corpus.prose import Unit, read_text

_TEXTS = ("text", "contents", "content", "body")
_TITLES = ("title", "name")
_SAMPLE = 1 << 16
_SCALARS = (str, int, float, bool)
_Scalar = str | int | float | bool
_MOST_KNOWN = 10_000
"""Characters of all that is kept of a row beside its title and text."""


def read_csv(file: Path) -> Iterator[Unit]:
    """Read a table whose first row names the columns."""
    text = read_text(file)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(text[:_SAMPLE]))
    try:
        names = [name.strip() for name in next(rows, [])]
        kept = _last_of(names)
        for number, row in enumerate(rows, start=1):
            if any(cell.strip() for cell in row):
                absent = [(name, "") for at, name in kept if at >= len(row)]
                cells = zip_longest(names[: len(row)], row, fillvalue="")
                yield _unit(file, number, [*cells, *absent])
    except csv.Error as error:
        raise FormatError(file, rows.line_num, f"is no table ({error})") from error


def _last_of(names: Sequence[str]) -> list[tuple[int, str]]:
    """Return the columns that count even where a row ends before them, with their places.

    Others are passed over there: a first row of a million names would make every row as long.
    """
    last = {name.casefold(): at for at, name in enumerate(names)}
    return [(at, names[at]) for name in (*_TITLES, *_TEXTS) if (at := last.get(name, -1)) >= 0]


def _delimiter(sample: str) -> str:
    """Return what separates columns: of the usual signs the one that the first line has most of.

    >>> _delimiter("name;born;note, if any\\nAda;1815;\\n")
    ';'
    """
    first = sample.lstrip().partition("\n")[0]
    return max(",;\t|", key=first.count)


def read_jsonl(file: Path) -> Iterator[Unit]:
    """Read a JSON object, or a string, from every line."""
    for number, line in enumerate(read_text(file).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line, parse_constant=str, parse_float=_finite)
            unit = _unit(file, number, list(value.items())) if isinstance(value, dict) else None
        except (ValueError, RecursionError) as error:
            raise FormatError(file, number, f"is no JSON ({error})") from error
        if unit is not None:
            yield unit
        elif isinstance(value, str):
            yield Unit(file.stem, value, {"row": number})
        else:
            raise FormatError(file, number, "is neither a JSON object nor a string")


def _finite(written: str) -> float | str:
    """Read a number; one that is too large for a float stays as it is written."""
    return number if isfinite(number := float(written)) else written


def _unit(file: Path, number: int, cells: Sequence[tuple[str, object]]) -> Unit:
    """Make a unit of a row: of the names of its columns and what is there."""
    title, text = _place(cells, _TITLES), _place(cells, _TEXTS)
    named = file.stem if title is None else _told(cells[title][1]) or file.stem
    if text is None:
        shown = ((name, _told(value)) for name, value in cells)
        told = "; ".join(f"{name}: {cell}" if name else cell for name, cell in shown if cell)
        return Unit(named, told, {"row": number})
    known = (
        (name, value)
        for at, (name, value) in enumerate(cells)
        if name and at not in (title, text) and isinstance(value, _SCALARS)
    )
    return Unit(named, str(cells[text][1]), {**_kept(known), "row": number})


def _kept(known: Iterable[tuple[str, _Scalar]]) -> dict[str, _Scalar]:
    """Return what is known of a row, up to a limit: every passage of the row will have it."""
    kept, left = dict[str, _Scalar](), _MOST_KNOWN
    for name, value in known:
        left -= len(name) + len(str(value))
        if left >= 0:
            kept[name] = value
    return kept


def _place(cells: Sequence[tuple[str, object]], wanted: tuple[str, ...]) -> int | None:
    """Return where the first of some columns is that holds a text."""
    places = {
        name.casefold(): at for at, (name, value) in enumerate(cells) if isinstance(value, str)
    }
    return next((places[name] for name in wanted if name in places), None)


def _told(value: object) -> str:
    """Write a cell: lists item by item, nothing as nothing."""
    if isinstance(value, list):
        return ", ".join(map(_told, value))
    if isinstance(value, dict):
        return ", ".join(f"{name} {_told(one)}" for name, one in value.items())
    return "" if value is None else " ".join(str(value).split())
