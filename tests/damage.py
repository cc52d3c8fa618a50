"""Every way to damage a record: what reads it must explain each, or not mind."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jpr.io.checksums import read_record

_WRONG: list[object] = [
    None,
    True,
    7,
    1.5,
    "",
    "x",
    [],
    {},
    [[]],
    [None],
    [["x"], "y"],
    {"x": 1},
    [[[["x"]]]],
]


def without_sums(file: Path) -> dict[str, Any]:
    """Make a model's record one of before there were checksums, and return it."""
    record, _ = read_record(file)
    file.write_text(json.dumps(record), encoding="utf-8")
    return record


def damaged(value: object) -> Iterator[object]:
    """Yield copies of a JSON value with one part replaced or missing."""
    yield from _WRONG
    if isinstance(value, dict):
        for key, part in value.items():
            rest = {other: kept for other, kept in value.items() if other != key}
            yield rest
            yield from ({**value, key: bad} for bad in damaged(part))
    elif isinstance(value, list):
        for place, part in enumerate(value):
            yield from ([*value[:place], bad, *value[place + 1 :]] for bad in damaged(part))
