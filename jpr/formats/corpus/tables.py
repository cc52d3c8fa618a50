"""The rows of .csv and .jsonl files.

A column called text (contents, content, body) is the row's text, title or name its title; other
columns are then its meta. Without such a column, the text is all of them: "country: France;
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
from jpr.formats.corpus.prose import Section, read_text

_TEXTS = ("text", "contents", "content", "body")
_TITLES = ("title", "name")
_SAMPLE = 1 << 16
_SCALARS = (str, int, float, bool)
_Scalar = str | int | float | bool
_MAX_META = 10_000  # characters of a row's meta


def read_csv(file: Path) -> Iterator[Section]:
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
                yield _section(file, number, [*cells, *absent])
    except csv.Error as error:
        raise FormatError(file, rows.line_num, f"is not a table ({error})") from error


def _last_of(names: Sequence[str]) -> list[tuple[int, str]]:
    """Return the title and text columns with their places, for rows that end before them.

    Others are not filled in: a first row of a million names would make every row as long.
    """
    last = {name.casefold(): at for at, name in enumerate(names)}
    return [(at, names[at]) for name in (*_TITLES, *_TEXTS) if (at := last.get(name, -1)) >= 0]


def _delimiter(sample: str) -> str:
    """Return the usual separator that is most frequent in the first line.

    >>> _delimiter("name;born;note, if any\\nAda;1815;\\n")
    ';'
    """
    first = sample.lstrip().partition("\n")[0]
    return max(",;\t|", key=first.count)


def read_jsonl(file: Path) -> Iterator[Section]:
    """Read a JSON object, or a string, from every line."""
    for number, line in enumerate(read_text(file).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line, parse_constant=str, parse_float=_finite)
            cells = {"text": value} if isinstance(value, str) else value
            if not isinstance(cells, dict):
                raise FormatError(file, number, "is neither a JSON object nor a string")
            section = _section(file, number, list(cells.items()))
        except (ValueError, RecursionError) as error:
            raise FormatError(file, number, f"is not JSON ({error})") from error
        yield section


def _finite(written: str) -> float | str:
    return number if isfinite(number := float(written)) else written  # too large for a float


def _section(file: Path, number: int, cells: Sequence[tuple[str, object]]) -> Section:
    title, text = _place(cells, _TITLES), _place(cells, _TEXTS)
    named = file.stem if title is None else _as_text(cells[title][1]) or file.stem
    if text is None:
        shown = ((name, _as_text(value)) for name, value in cells)
        joined = "; ".join(f"{name}: {cell}" if name else cell for name, cell in shown if cell)
        return Section(named, joined, {"row": number})
    others = (
        (name, value)
        for at, (name, value) in enumerate(cells)
        if name and at not in (title, text) and isinstance(value, _SCALARS)
    )
    return Section(named, str(cells[text][1]), {**_limited(others), "row": number})


def _limited(columns: Iterable[tuple[str, _Scalar]]) -> dict[str, _Scalar]:
    """Return columns up to a limit: every passage of the row will have them as meta."""
    kept, left = dict[str, _Scalar](), _MAX_META
    for name, value in columns:
        left -= len(name) + len(str(value))
        if left >= 0:
            kept[name] = value
    return kept


def _place(cells: Sequence[tuple[str, object]], names: tuple[str, ...]) -> int | None:
    places = {
        name.casefold(): at for at, (name, value) in enumerate(cells) if isinstance(value, str)
    }
    return next((places[name] for name in names if name in places), None)


def _as_text(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(_as_text, value))
    if isinstance(value, dict):
        return ", ".join(f"{name} {_as_text(one)}" for name, one in value.items())
    return "" if value is None else " ".join(str(value).split())
