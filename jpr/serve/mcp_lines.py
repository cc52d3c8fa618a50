"""The lines of an assistant, bounded and made to be JSON: each gets a reply."""

import io
import json
import re
from collections.abc import Iterator
from typing import BinaryIO

from jpr.serve.bounded_json import TooManyValuesError, read_json
from jpr.serve.limits import ServiceLimits

_SMALL = 1 << 16  # bytes of a line that no check could make safer
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
)
_ID = rb'"id"\s*+:\s*+(-?[0-9]{1,18}|"[^"\\]{1,100}")'
_FIRST_ID, _LAST_ID = re.compile(rb"\s*+\{[^{}\[\]]{0,200}?" + _ID), re.compile(_ID + rb"\s*\}\s*$")


class BoundedLines(io.BufferedIOBase):
    """A stream of lines, of which those that are too large become small requests of no method.

    Halves of surrogate pairs become the replacement character.
    """

    def __init__(self, stream: BinaryIO, limits: ServiceLimits) -> None:
        """Read from a stream, which stays open."""
        self._lines, self._limits = self._read_lines(stream), limits

    def readable(self) -> bool:
        """Return true."""
        return True

    def read1(self, _: int = -1) -> bytes:
        """Return the next line, or nothing at the end."""
        return next(self._lines, b"")

    def _read_lines(self, stream: BinaryIO) -> Iterator[bytes]:
        limit = self._limits.body
        while line := stream.readline(limit + 1):
            if len(line) <= limit:
                yield self._checked(line)
                continue
            end = line[-1000:]
            while not end.endswith(b"\n") and (more := stream.readline(_SMALL)):
                end = end[-1000:] + more
            yield _refused(line[:1000], end, f"a line of more than {limit:,} bytes")

    def _checked(self, line: bytes) -> bytes:
        if len(line) > _SMALL:
            try:
                read_json(line, self._limits.values)
            except TooManyValuesError:
                problem = f"JSON of more than {self._limits.values:,} values"
                return _refused(line[:1000], line[-1000:], problem)
            except (ValueError, RecursionError):
                pass  # the protocol's own reader reports it
        return _ESCAPE.sub(_mended, line)


def _mended(escape: re.Match[bytes]) -> bytes:
    r"""Return an escape of JSON, whole.

    >>> _ESCAPE.sub(_mended, rb'"\ud83d\ude00 \\ud800 \ud800 \n"')
    b'"\\ud83d\\ude00 \\\\ud800 \\ufffd \\n"'
    """
    return escape[0] if escape[1] is None else b"\\ufffd"


def _refused(start: bytes, end: bytes, problem: str) -> bytes:
    """Return a request of the same id that is answered by an error with the problem."""
    found = _FIRST_ID.match(start) or _LAST_ID.search(end)
    id = json.loads(found[1]) if found else "unknown"
    request = {"jsonrpc": "2.0", "id": id, "method": f"{problem}; send less"}
    return json.dumps(request).encode() + b"\n"
