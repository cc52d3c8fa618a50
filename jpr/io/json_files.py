"""JSON files: one value, or many as lines or as an array, which are streamed."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any

from jpr.errors import FormatError
from jpr.io.atomic import explain_read_errors, publish
from jpr.io.text_files import read_lines

_SPACE = re.compile(r"[ \t\r\n]*+")
_Lines = Iterator[tuple[int, str]]


def read_json(file: Path) -> object:
    """Read a file that holds one JSON value."""
    try:
        with explain_read_errors(file):
            value: object = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise FormatError(file, 0, f"is not JSON ({error}); copy it again") from error
    return value


def read_object(file: Path) -> dict[str, object]:
    """Read a file that holds one JSON object."""
    value = read_json(file)
    if not isinstance(value, dict):
        raise FormatError(file, 0, "holds no JSON object; is it the right file?")
    return value


def write_json(path: Path, value: Mapping[str, object]) -> None:
    """Write one JSON object."""
    with publish(path) as stream:
        stream.write(json.dumps(dict(value), indent=1) + "\n")


def strict_json(value: object) -> str:
    r"""Write a value as JSON that every parser reads, in characters that UTF-8 can encode.

    Half a surrogate pair becomes an escape; NaN and infinity, which JSON lacks, become null.

    >>> strict_json({"half": chr(0xD800), "score": float("nan")})
    '{"half": "\\ud800", "score": null}'
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(_finite(value))
    except ValueError:
        return strict_json(_finite(value))
    return text


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(one) for key, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, list | tuple) else value


def iter_json(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield (line where it starts, value) for JSON lines, a JSON array's items, or one document.

    Of JSON lines and arrays, memory holds one value at a time.
    """
    lines = read_lines(path)
    begun = False
    for number, line in lines:
        if not line.strip():
            continue
        if not begun and line.lstrip().startswith("["):
            yield from _array_items(path, number, line, lines)
            return
        try:
            yield number, _guarded(json.loads if begun else _loads_document, line)
        except json.JSONDecodeError as error:
            if begun or not _unfinished(error, line):
                raise _bad_json(path, number, error) from error
            yield number, _document(path, number, line, lines)
            return
        begun = True


def _unrepeated(pairs: list[tuple[str, object]]) -> dict[str, object]:
    record = dict(pairs)
    if len(record) < len(pairs):
        (twice, _), *_ = Counter(key for key, _ in pairs).most_common(1)
        raise json.JSONDecodeError(f"key {twice!r:.60} comes twice in one object", "", 0)
    return record


_loads_document = partial(json.loads, object_pairs_hook=_unrepeated)
"""Decodes a value that may be the whole file, with ids as keys: none may come twice."""


def _guarded(decode: Callable[..., Any], text: str, *at: int) -> Any:  # noqa: ANN401  # any JSON
    """Decode JSON; what Python cannot hold is an error in the JSON like any other."""
    try:
        return decode(text, *at)
    except json.JSONDecodeError:
        raise
    except (RecursionError, ValueError) as error:
        deep = isinstance(error, RecursionError)
        problem = "nested too deeply" if deep else "a number has too many digits"
        raise json.JSONDecodeError(problem, text, *at or (0,)) from None


def _unfinished(error: json.JSONDecodeError, text: str) -> bool:
    # broken off only because the text is: the next lines may complete it
    return error.msg.startswith("Unterminated string") or error.pos >= len(text.rstrip()) - 10


def _bad_json(path: Path, line: int, error: json.JSONDecodeError) -> FormatError:
    problem = error.msg.removesuffix(" starting at")
    return FormatError(path, line, f"not valid JSON: {problem} at column {error.colno}")


def _document(path: Path, first: int, line: str, lines: _Lines) -> Any:  # noqa: ANN401
    text = "\n".join([line, *(more for _, more in lines)])
    try:
        return _guarded(_loads_document, text)
    except json.JSONDecodeError as error:
        raise _bad_json(path, first + error.lineno - 1, error) from error


def _array_items(path: Path, first: int, line: str, lines: _Lines) -> Iterator[tuple[int, Any]]:
    """Yield the items of a JSON array that may span any number of lines.

    The text in memory doubles when an item does not fit, so the work stays linear.
    """
    decode = json.JSONDecoder().raw_decode
    text, at, number = line, line.index("[") + 1, first
    before = "["  # the token before: the bracket, a comma, or an item
    while True:
        space = _SPACE.match(text, at)
        assert space is not None
        number += space[0].count("\n")
        at = space.end()
        sign = text[at : at + 1]
        if sign == "]" and before != ",":
            if text[at + 1 :].strip() or any(more.strip() for _, more in lines):
                raise FormatError(path, number, "there is more text after the end of the array")
            return
        if sign == "," and before == "item":
            before, at = ",", at + 1
            continue
        try:
            if sign and before == "item":
                raise json.JSONDecodeError("Expecting ',' delimiter", text, at)
            item, end = _guarded(decode, text, at)
        except json.JSONDecodeError as error:
            more = _more(lines, max(1 << 16, len(text) - at)) if _unfinished(error, text) else ""
            if not more:
                broken = number + text.count("\n", at, error.pos)
                raise _bad_json(path, broken, error) from error
            text, at = text[at:] + "\n" + more, 0
            continue
        yield number, item
        number += text.count("\n", at, end)
        before, at = "item", end


def _more(lines: _Lines, size: int) -> str:
    taken: list[str] = []
    while size > 0 and (line := next(lines, None)):
        taken.append(line[1])
        size -= len(line[1]) + 1
    return "\n".join(taken)
