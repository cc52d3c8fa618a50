"""JSON of clients, read in time and memory that its size does not multiply.

The readers of Python and pydantic hold all other threads up until they end.
"""

from collections.abc import Callable
from json import JSONDecodeError, JSONDecoder
from json.decoder import JSONArray, JSONObject  # type: ignore[attr-defined]  # not in typeshed
from json.scanner import py_make_scanner  # type: ignore[attr-defined]
from typing import Any

from jpr.errors import DataError


class TooManyValuesError(DataError):
    """JSON has more values than its reader takes."""


def read_json(body: bytes, max_values: int) -> object:
    """Read JSON in UTF-8 with at most `max_values` values; other threads get their turns.

    >>> read_json(b'{"k": [1, 2]}', 4)
    {'k': [1, 2]}
    """
    text = body.decode("utf-8-sig").strip(" \t\r\n")
    value, end = _BoundedDecoder(max_values).raw_decode(text)
    if end < len(text):
        raise JSONDecodeError("Extra data", text, end)
    return value


class _BoundedDecoder(JSONDecoder):
    """A decoder in Python, except for strings, that stops at its first value too many."""

    def __init__(self, max_values: int) -> None:
        super().__init__(parse_constant=_refuse_constant)
        self._left = self._max = max_values
        self.parse_array = lambda begun, scan: JSONArray(begun, self._counted(scan))
        self.parse_object = lambda begun, strict, scan, *hooks: JSONObject(
            begun, strict, self._counted(scan), *hooks
        )
        self.scan_once = py_make_scanner(self)

    def _counted(self, scan: Callable[..., tuple[Any, int]]) -> Callable[..., tuple[Any, int]]:
        def scan_one(text: str, at: int) -> tuple[Any, int]:
            self._left -= 1
            if self._left < 0:
                raise TooManyValuesError(f"send at most {self._max:,} values in JSON")
            return scan(text, at)

        return scan_one


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
