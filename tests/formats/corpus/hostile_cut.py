"""A cut with the faults that a reader may have; in a module that loads fast."""

import os
from collections.abc import Iterator
from functools import partial

from jpr.errors import DataError
from jpr.types import Passage


def hostile(passage: Passage) -> Iterator[Passage]:
    """Do what the text says, in place of a reader that has such a fault."""
    match passage.text:
        case "hang":
            sum(iter(int, 1))  # in C: no Python code runs
        case "grow":
            list(iter(partial(bytes, 1 << 20), None))
        case "abort":
            os.abort()
        case "fail":
            raise KeyError("font")
        case "print":
            print("into the answer")  # noqa: T201  as a library may
        case "refuse":
            raise DataError("one character is too long")
    yield passage
