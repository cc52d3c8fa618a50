"""A folder of .txt and .md files, each one passage (docs/formats.md); the walk through folders."""

import os
import re
from collections.abc import Callable, Iterator
from itertools import takewhile
from pathlib import Path

from jpr.errors import FormatError
from jpr.formats.corpus.jsonl import is_beir
from jpr.formats.corpus.wikipedia import is_extracted
from jpr.formats.format import Head, Located, file_format
from jpr.io.text_files import read_lines
from jpr.types import Passage

HEADING = re.compile(r"#{1,6}[ \t]++(.*)")
FENCE = ("```", "~~~")


def files_below(
    root: Path, endings: tuple[str, ...], refuse: Callable[[FormatError], None] | None = None
) -> Iterator[Path]:
    """Yield the files with one of these endings, a folder's own before those of its subfolders.

    Hidden ones are skipped, and links to folders are not followed. `refuse` gets the error of a
    folder that cannot be listed, which is otherwise raised.
    """
    waiting = [root]  # not os.walk: before Python 3.12 it never ends a thousand folders deep
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(folder) as listed:
                found = sorted(listed, key=lambda entry: entry.name)
        except OSError as error:
            problem = FormatError(folder, 0, f"cannot be listed: {error.strerror}")
            if refuse is None:
                raise problem from error
            refuse(problem)
            continue
        seen = [entry for entry in found if not entry.name.startswith(".")]
        for entry in seen:
            if entry.name.lower().endswith(endings) and not Path(entry).is_dir():
                yield Path(entry)
        waiting += [Path(entry) for entry in reversed(seen) if entry.is_dir(follow_symlinks=False)]


def name_below(file: Path, root: Path) -> str:
    """Return a file's path below a folder, for ids."""
    id = file.relative_to(root).as_posix()
    try:
        id.encode("utf-8")
    except UnicodeEncodeError as error:
        raise FormatError(ascii(id), 0, "the file's name is not UTF-8; rename it") from error
    return id


def _sniff(head: Head) -> bool:
    return head.path.is_dir() and not is_beir(head) and not is_extracted(head)


@file_format("text", _sniff)
def text_folder(path: Path) -> Located[Passage]:
    """a folder of .txt and .md files, one passage each."""
    root = path if path.is_dir() else path.parent
    found = False
    for file in files_below(path, (".txt", ".md")) if path.is_dir() else (path,):
        found = True
        lines = [text for _, text in read_lines(file)]
        before_code = takewhile(lambda line: not line.startswith(FENCE), lines)
        headings = (match[1] for line in before_code if (match := HEADING.match(line)))
        title = next(headings, "") if file.suffix.lower() == ".md" else ""
        title = title.strip().rstrip("#").rstrip() or file.stem
        yield 0, Passage(name_below(file, root), title, "\n".join(lines))
    if not found:
        raise FormatError(path, 0, "the folder holds no .txt or .md file; name the right folder")


FORMATS = (text_folder,)
