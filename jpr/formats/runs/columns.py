"""Columns separated by white space, as TREC's tools read them.

Only ASCII white space separates: a no-break space or a line separator may be part of an id.
"""

import re

from jpr.formats.format import Head

_LONGEST = 10_000  # characters: a file of one line may be a whole JSON array
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_GAP = re.compile(r"[ \t\n\r\f\v]+")
_NOT_IN_A_WORD = re.compile("[ \t\n\r\f\v\x1c-\x1f\ud800-\udfff\ufeff]")


def columns_of(line: str) -> list[str]:
    """Split a line into its columns.

    >>> columns_of("q1  Q0\\tNew\\u00a0York 1 2.5 run")
    ['q1', 'Q0', 'New\\xa0York', '1', '2.5', 'run']
    """
    if line.isascii():
        return line.split()
    return [column for column in _GAP.split(line) if column]


def is_word(text: str) -> bool:
    """Tell whether a text can stand in a column: not empty, nothing in it that separates.

    Half a surrogate pair cannot be written at all, and a byte order mark is lost in reading.
    """
    return bool(text) and not _NOT_IN_A_WORD.search(text)


def first_columns(head: Head) -> list[str]:
    """Return the columns of a file's first line, looking at no more of it than they can be."""
    return columns_of(head.line[:_LONGEST])


def is_whole(text: str) -> bool:
    """Tell whether a column is a whole number."""
    return _WHOLE.fullmatch(text) is not None
