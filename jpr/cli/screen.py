"""What a person at a terminal sees: tables, notes, and progress while they wait."""

import json
import os
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from jpr.io.json_files import strict_json
from jpr.stages import Progress

T = TypeVar("T")
_FOLDED = 12
"""Where there is little room, one column of a table is folded, to this width at least."""
_ENDLESS = 10_000
_CONTROL = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def note(text: str) -> None:
    """Say something beside the result."""
    sys.stderr.write(f"jpr: {plain(text)}\n")


def plain(text: str) -> str:
    r"""Return a text with escapes for what would move the cursor, or is half a character.

    >>> plain("a\tb\x1b[2J")
    'a\tb\\x1b[2J'
    """
    return _CONTROL.sub(lambda sign: ascii(sign[0])[1:-1], text)


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Say as notes what the library warns of."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = lambda message, *_, **__: note(str(message))
        yield


def say(text: str) -> None:
    """Write the result itself."""
    sys.stdout.write(text + "\n")


def say_json(value: object) -> None:
    """Write the result as JSON, with escapes for what the output's encoding lacks."""
    text = strict_json(value)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(json.loads(text))
    say(text)


def table(
    header: Sequence[str], rows: Sequence[Sequence[str]], numbers_from: int = 2, folds: int = 0
) -> None:
    """Draw a table, columns of numbers to the right; column `folds` gives way, if that suffices."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(*header, box=None, pad_edge=False, header_style="bold")
    for i, column in enumerate(drawn.columns):
        column.no_wrap = i != folds
        column.overflow = "fold"
        column.justify = "right" if i >= numbers_from else "left"
    for row in rows:
        drawn.add_row(*(Text(plain(cell)) for cell in row))
    console = Console(highlight=False)
    width = console.width if sys.stdout.isatty() else 200
    console.width = width if width >= _least_width([header, *rows], folds) else _ENDLESS
    with console.capture() as captured:  # written by us, since rich would make an end of `| head`
        console.print(drawn)
    say(captured.get().rstrip("\n"))


def _least_width(rows: Sequence[Sequence[str]], folds: int) -> int:
    """Return the width that shows all columns in full but one, and a part of that."""
    from rich.cells import cell_len

    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    widths[folds] = min(widths[folds], _FOLDED)
    return sum(widths) + 2 * (len(widths) - 1)


@contextmanager
def progress(what: str, total: int | None) -> Iterator[Progress]:
    """Show a bar on standard error while something long goes on; nothing where that is piped."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.progress import Progress as Bar

    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.advance(task, done)


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show that something goes on which cannot be counted; nothing where that would be piped."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield


def counted(records: Iterable[T], progress: Progress) -> Iterator[T]:
    """Pass records on and count them as progress."""
    for record in records:
        yield record
        progress(1)


def workers() -> int:
    """Return how many processes this machine can run side by side."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
