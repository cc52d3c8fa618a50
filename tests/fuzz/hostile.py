"""Damaged files and hostile values, drawn at random.

`JPR_FUZZ=3000 pytest tests/fuzz` tries every target as many times instead of a few.
"""

import bz2
import gzip
import json
import lzma
import os
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import zstandard
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from jpr.errors import JprError

EXAMPLES = int(os.environ.get("JPR_FUZZ", "20"))
fuzzing = settings(
    max_examples=EXAMPLES,
    deadline=timedelta(seconds=20),  # machines are noisy, and what never ends is worse than that
    suppress_health_check=list(HealthCheck),
)
Draw = Callable[[st.SearchStrategy[Any]], Any]

_TOKENS = [
    *(
        b'"',
        b"'",
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b"\t",
        b"\n",
        b"\r",
        b"\0",
        b"\\",
        b"<",
        b">",
    ),
    *(b"\xff", b"\xef\xbb\xbf", b"\xff\xfe", b"\xed\xa0\x80", b"\xe2\x80\xa8", b"\xc2\x85"),
    *(b"\\ud800", b"\\u0000", b"NaN", b"-Infinity", b"1e999", b"-0", b"9" * 30, b"1" * 5000),
    *(b"null", b"true", b'{"a":' * 1500, b"[" * 3000, b" " * 3000, b"../../x", b"%00", b"&#0;"),
    *(b"<!--", b"-->", b"]]>", b"<![CDATA[", b"<!DOCTYPE x>", b"obj", b"endstream", b"/Length 9"),
    *(b"\x1f\x8b", b"\xfd7zXZ\x00", b"BZh", b"\x28\xb5\x2f\xfd", b"PK\x03\x04", b"%PDF-"),
]
_WORDS = st.sampled_from(
    ["", " ", "\0", "\ud800", "a\udfff", "\ufeff", "\u2028", "é" * 300, "x" * 2000, "[[", "]]", "1"]
)
_ATOMS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([0, -1, 2**31, 2**63, 10**400, float("nan"), float("inf"), 1e308, -0.0])
    | _WORDS
    | st.text(st.characters(codec=None, categories=None), max_size=20)
)
values = st.recursive(
    _ATOMS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_WORDS, inner, max_size=4),
    max_leaves=8,
)
"""Any JSON value, and what Python's reader takes for one."""


@st.composite
def damaged(draw: Draw, whole: bytes) -> bytes:
    """The bytes of a file with some of them changed, cut out, doubled or put in."""
    made = bytearray(whole)
    for _ in range(draw(st.integers(1, 5))):
        first = draw(st.integers(0, len(made)))
        last = min(len(made), first + draw(st.integers(0, 40)))
        how = draw(st.sampled_from(["change", "cut", "double", "end", "insert", "insert"]))
        if how == "change" and first < len(made):
            made[first] = draw(st.integers(0, 255))
        elif how == "cut":
            del made[first:last]
        elif how == "double":
            made[first:first] = made[first:last] * draw(st.integers(1, 50))
        elif how == "end":
            del made[first:]
        elif how == "insert":
            made[first:first] = draw(st.sampled_from(_TOKENS) | st.binary(max_size=8))
    return bytes(made)


@st.composite
def altered(draw: Draw, value: Any) -> Any:  # noqa: ANN401  any JSON
    """A JSON value with one part of it replaced, renamed or left out."""
    if isinstance(value, dict) and value and draw(st.integers(0, 4)):
        key = draw(st.sampled_from(sorted(value)))
        how = draw(st.sampled_from(["in", "in", "in", "drop", "rename", "add"]))
        if how == "in":
            return {**value, key: draw(altered(value[key]))}
        if how == "add":
            return {**value, draw(_WORDS): draw(values)}
        rest = {name: part for name, part in value.items() if name != key}
        return rest if how == "drop" else {**rest, draw(_WORDS): value[key]}
    if isinstance(value, list) and value and draw(st.integers(0, 4)):
        at = draw(st.integers(0, len(value) - 1))
        return [*value[:at], draw(altered(value[at])), *value[at + 1 :]]
    return draw(values)


def of_text(text: str) -> st.SearchStrategy[bytes]:
    """Files like a valid one: damaged, altered where it is JSON, compressed, or nothing of it."""
    whole = text.encode()
    found = damaged(whole) | st.binary(max_size=200)
    records = _records(text)
    if records:
        found |= altered(records).map(
            lambda made: (
                "\n".join(json.dumps(one) for one in made) if isinstance(made, list) else "[]"
            ).encode()
        )
    packed: st.SearchStrategy[Callable[[bytes], bytes]] = st.sampled_from(
        [gzip.compress, bz2.compress, lzma.compress, zstandard.compress]
    )
    return (
        found
        | st.builds(lambda pack, data: pack(data), packed, found)
        | packed.flatmap(lambda pack: damaged(pack(whole)))
    )


def _records(text: str) -> list[Any]:
    try:
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    except ValueError:
        try:
            return [json.loads(text)]
        except ValueError:
            return []


def explained(read: Callable[[Path], object], path: Path, *, named: bool = True) -> None:
    """Read, and see that an error is one line that names the file."""
    try:
        read(path)
    except JprError as error:
        message = str(error)
        assert not re.search(r"[\r\n]", message), message
        assert len(message) <= 2000
        assert not named or path.name in message or str(path.parent) in message, message
