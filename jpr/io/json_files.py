"""JSON in any of the ways files hold it: a value per line, one array, or one document."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from math import isfinite
from pathlib import Path
from typing import Any

from jpr.errors import FormatError
from jpr.io.files import read_lines


def read_json(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield (line where it starts, value) for JSON lines, a JSON array's items, or one document.

    JSON lines and arrays are streamed: memory holds one value at a time.
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


def strict_json(value: object) -> str:
    r"""Write a value as JSON that every reader takes, in characters that UTF-8 can hold.

    Half a surrogate pair becomes an escape; NaN and infinity, which JSON has not, become null.

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


def _loads_document(text: str) -> object:
    """Decode a value that may be the whole file, whose keys may be ids: none may come twice."""
    value: object = json.loads(text, object_pairs_hook=_unrepeated)
    return value


def _unrepeated(pairs: list[tuple[str, object]]) -> dict[str, object]:
    record = dict(pairs)
    if len(record) < len(pairs):
        (twice, _), *_ = Counter(key for key, _ in pairs).most_common(1)
        raise json.JSONDecodeError(f"key {twice!r:.60} comes twice in one object", "", 0)
    return record


def _guarded(decode: Callable[..., Any], text: str, *at: int) -> Any:  # noqa: ANN401  # any JSON
    """Decode JSON; what Python cannot hold is an error in the JSON like any other."""
    try:
        return decode(text, *at)
    except RecursionError:
        raise json.JSONDecodeError("nested too deeply", text, *at or (0,)) from None
    except json.JSONDecodeError:
        raise
    except ValueError:
        raise json.JSONDecodeError("a number has too many digits", text, *at or (0,)) from None


def _unfinished(error: json.JSONDecodeError, text: str) -> bool:
    """Tell whether JSON broke off only because the text did: there may be more below it."""
    return error.msg.startswith("Unterminated string") or error.pos >= len(text.rstrip()) - 10


def _bad_json(path: Path, line: int, error: json.JSONDecodeError) -> FormatError:
    return FormatError(path, line, f"not valid JSON: {error.msg} at column {error.colno}")


def _document(path: Path, first: int, line: str, lines: Iterator[tuple[int, str]]) -> object:
    """Read the rest of the file as one JSON document that began on `line`."""
    text = "\n".join([line, *(more for _, more in lines)])
    try:
        document: object = _guarded(_loads_document, text)
        return document
    except json.JSONDecodeError as error:
        raise _bad_json(path, first + error.lineno - 1, error) from error


def _array_items(
    path: Path, first: int, line: str, lines: Iterator[tuple[int, str]]
) -> Iterator[tuple[int, Any]]:
    """Yield the items of a JSON array that may span any number of lines.

    The text at hand grows by doubling when an item does not fit, so the work stays linear.
    """
    decode = json.JSONDecoder().raw_decode
    text, at, number = line, line.index("[") + 1, first
    before = "["  # what stands before: the bracket, a comma, or an item
    while True:
        skipped = at
        at = _skip(text, at)
        number += text.count("\n", skipped, at)
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


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def _more(lines: Iterator[tuple[int, str]], size: int) -> str:
    """Take lines until they hold `size` characters."""
    taken: list[str] = []
    for _, line in lines:
        taken.append(line)
        size -= len(line) + 1
        if size <= 0:
            break
    return "\n".join(taken)
