"""What a person at a terminal sees: tables, notes, and progress while they wait."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def note(text: str) -> None:
    """Say something beside the result."""
    sys.stderr.write(f"jpr: {text}\n")


def say(text: str) -> None:
    """Write the result itself."""
    sys.stdout.write(text + "\n")


def table(header: Sequence[str], rows: Sequence[Sequence[str]], numbers_from: int = 2) -> None:
    """Draw a table as wide as its contents, the columns of numbers to the right."""
    from rich.console import Console
    from rich.table import Table

    drawn = Table(*header, box=None, pad_edge=False, header_style="bold")
    for column in drawn.columns[numbers_from:]:
        column.justify = "right"
    for row in rows:
        drawn.add_row(*row)
    width = None if sys.stdout.isatty() else 200
    Console(width=width, highlight=False).print(drawn)


@contextmanager
def progress(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show a bar on standard error while something long goes on; nothing where that is piped."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.advance(task, done)


def counted(records: Iterable[T], progress: Callable[[int], None]) -> Iterator[T]:
    """Pass records on and count them as progress."""
    for record in records:
        yield record
        progress(1)


def workers() -> int:
    """Return how many processes this machine can run side by side."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cache_folder() -> Path:
    """Return where results that can be computed again are kept."""
    base = os.environ.get("JPR_CACHE") or os.environ.get("XDG_CACHE_HOME")
    return Path(base, "jpr") if base else Path.home() / ".cache" / "jpr"
