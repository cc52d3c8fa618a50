"""Standard output and standard error: results, notes, tables, progress bars."""

import json
import re
import sys
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from jpr.io.json_files import strict_json

T = TypeVar("T")
_UNLIMITED = 10_000
_CONTROL = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def note(text: str) -> None:
    """Write a message to standard error."""
    sys.stderr.write(f"jpr: {escape(text)}\n")


def escape(text: str) -> str:
    r"""Escape control characters and lone surrogates.

    >>> escape("a\tb\x1b[2J")
    'a\tb\\x1b[2J'
    """
    return _CONTROL.sub(lambda sign: ascii(sign[0])[1:-1], text)


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Write the library's warnings as notes, each text once."""
    with warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = lambda message, *_, **__: note(str(message))
        yield


def write(text: str) -> None:
    """Write a result to standard output."""
    sys.stdout.write(text + "\n")


def write_json(value: object) -> None:
    """Write a result as JSON, escaping what the output's encoding lacks."""
    text = strict_json(value)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(json.loads(text))
    write(text)


def rendered(parts: Iterable[object], width: int | None = None) -> str:
    """Return what rich prints, without trailing spaces; piped output has lines of any length."""
    from rich.console import Console

    console = Console(highlight=False)
    console.width = width or (console.width if sys.stdout.isatty() else _UNLIMITED)
    with console.capture() as captured:  # rich itself would exit on a closed pipe
        for part in parts:
            console.print(part)
    return "\n".join(line.rstrip() for line in captured.get().splitlines()).rstrip("\n")


def count(n: int, noun: str) -> str:
    """Return a number with a noun: 1 ranking, 2,000 rankings."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def table(
    header: Sequence[str], rows: Sequence[Sequence[str]], first_number: int = 2, folded: int = 0
) -> str:
    """Return a table; columns from `first_number` are right-aligned, `folded` may be folded."""
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(*header, box=None, pad_edge=False, header_style="bold")
    for i, column in enumerate(grid.columns):
        column.no_wrap, column.overflow = i != folded, "fold"
        column.justify = "right" if i >= first_number else "left"
    for row in rows:
        grid.add_row(*(Text(escape(cell)) for cell in row))
    widths = [max(map(cell_len, column)) for column in zip(header, *rows, strict=True)]
    widths[folded] = min(widths[folded], 12)
    needed = sum(widths) + 2 * (len(widths) - 1)
    width = Console().width if sys.stdout.isatty() else 200
    return rendered([grid], width if width >= needed else _UNLIMITED)


@contextmanager
def progress(what: str, total: int | None, *, quiet: bool = False) -> Iterator[Callable[..., None]]:
    """Show a progress bar on a terminal; yield what reports items done and, if given, a text."""
    if quiet or not sys.stderr.isatty():
        yield lambda done, shown="": None
        return
    from rich import markup
    from rich import progress as rich_progress
    from rich.console import Console

    columns = (
        *rich_progress.Progress.get_default_columns(),
        rich_progress.MofNCompleteColumn(),
        rich_progress.TextColumn("{task.fields[shown]}"),
    )
    with rich_progress.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(markup.escape(what), total=total, shown="")
        yield lambda done, shown="": bar.update(task, advance=done, shown=shown)


def counted(what: str, records: Iterable[T], total: int | None = None) -> Generator[T, None, None]:
    """Yield records while a progress bar counts them; it stays until the generator is closed."""
    with progress(what, total) as report:
        for record in records:
            yield record
            report(1)


@contextmanager
def spinner(what: str) -> Iterator[None]:
    """Show on a terminal that work of unknown length is running."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield
