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

Places = tuple[int | None, int | None]  # of the columns that hold the title and the text
_TEXTS = ("text", "contents", "content", "body")
_TITLES = ("title", "name")
_SAMPLE = 1 << 16
_MAX_META = 10_000  # characters of a row's meta, which every passage of the row will have


def read_csv(file: Path) -> Iterator[Section]:
    """Read a table whose first row names the columns; the usual separator in it is found out."""
    text = read_text(file)
    first = text[:_SAMPLE].lstrip().partition("\n")[0]
    separator = max(",;\t|", key=first.count)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    try:
        names = [name.strip() for name in next(rows, [])]
        places = _places(names)
        for number, row in enumerate(rows, start=1):
            if any(cell.strip() for cell in row):
                cells = list(zip_longest(names[: len(row)], row, fillvalue=""))
                yield _section(file, number, cells, places)
    except csv.Error as error:
        raise FormatError(file, rows.line_num, f"is not a table ({error})") from error


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
            places = _places(key if isinstance(cells[key], str) else "" for key in cells)
            section = _section(file, number, list(cells.items()), places)
        except (ValueError, RecursionError) as error:
            raise FormatError(file, number, f"is not JSON ({error})") from error
        yield section


def _finite(written: str) -> float | str:
    return number if isfinite(number := float(written)) else written  # too large for a float


def _places(names: Iterable[str]) -> Places:
    last = {name.casefold(): at for at, name in enumerate(names)}
    title = next((last[name] for name in _TITLES if name in last), None)
    return title, next((last[name] for name in _TEXTS if name in last), None)


def _section(
    file: Path, number: int, cells: Sequence[tuple[str, object]], places: Places
) -> Section:
    """Make a section of a row, which may end before its title or text."""
    named, text = (cells[at][1] if at is not None and at < len(cells) else "" for at in places)
    title = _as_text(named) or file.stem
    if places[1] is None:
        shown = ((name, _as_text(value)) for name, value in cells)
        joined = "; ".join(f"{name}: {cell}" if name else cell for name, cell in shown if cell)
        return Section(title, joined, {"row": number})
    meta, left = dict[str, object](), _MAX_META
    for at, (name, value) in enumerate(cells):
        if name and at not in places and isinstance(value, str | int | float):
            left -= len(name) + len(str(value))
            if left >= 0:
                meta[name] = value
    return Section(title, str(text), {**meta, "row": number})


def _as_text(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(_as_text, value))
    if isinstance(value, dict):
        return ", ".join(f"{name} {_as_text(one)}" for name, one in value.items())
    return "" if value is None else " ".join(str(value).split())
