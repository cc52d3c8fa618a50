"""A folder of documents: cut into passages, or (as a corpus format) a passage for each text file.

.txt and .md, .html and .docx section by section, .pdf page by page, .csv and .jsonl row by row.
Passage n of a file has the id `file#n`, counted from 1, with the file's path below the folder; its
meta has `file`, and `page` or `row` if there are such. Hidden files are skipped, and so are links
that lead out of the folder.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from jpr.errors import FormatError, MissingExtraError
from jpr.formats.corpus import office, prose, tables
from jpr.formats.corpus.jsonl import is_beir
from jpr.formats.corpus.wikipedia import is_extracted
from jpr.formats.format import Head, Located, file_format
from jpr.io.text_files import read_lines
from jpr.types import Passage

Cut = Callable[[Passage], Iterable[Passage]]  # cuts a passage into pieces
Note = Callable[[str], None]  # is called with a sentence for each file or folder that is left out
EXTRA = "documents"
_PORTION = 100_000  # characters that are tokenized at once
_LONGEST_TITLE = 500  # characters: every passage below it has it
# not meant for reading, such as a picture in base64; models take it for one unknown word
_UNREADABLE = re.compile("(?<![!-~])[!-~]{300,}+")


class DocumentReader(NamedTuple):
    """How a kind of file is read, and the packages of the extra that this needs."""

    read: Callable[[Path], Iterator[prose.Section]]
    needs: tuple[str, ...] = ()

    @property
    def is_installed(self) -> bool:
        """Whether its packages are."""
        return all(map(find_spec, self.needs))


READERS = {  # by the ending of a file's name
    ".txt": DocumentReader(prose.read_plain),
    ".md": DocumentReader(prose.read_markdown),
    ".html": DocumentReader(prose.read_html, ("lxml",)),
    ".htm": DocumentReader(prose.read_html, ("lxml",)),
    ".pdf": DocumentReader(office.read_pdf, ("pypdf",)),
    ".docx": DocumentReader(office.read_docx, ("docx", "lxml")),
    ".csv": DocumentReader(tables.read_csv),
    ".jsonl": DocumentReader(tables.read_jsonl),
}


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


def find_documents(folder: Path, note: Note) -> dict[str, Path]:
    """Return the documents below a folder, by their paths in it; call `note` for the others."""
    root = folder.resolve()
    if not root.is_dir():
        problem = "is not a folder" if root.exists() else "does not exist"
        raise FormatError(folder, 0, f"{problem}; name a folder of documents")
    files: dict[str, Path] = {}
    noted: set[str] = set()

    def refuse(error: Exception) -> None:
        problem = f"{error}; left out"
        if problem not in noted:
            noted.add(problem)
            note(problem)

    for file in files_below(root, tuple(READERS), refuse):
        if not file.is_file() or not file.resolve().is_relative_to(root):
            continue
        ending = file.suffix.lower()
        if not READERS[ending].is_installed:
            refuse(MissingExtraError(f"{folder}: reading {ending} files", EXTRA))
            continue
        try:
            files[name_below(file, root)] = file
        except FormatError as error:
            refuse(error)
    return files


def nothing_read(folder: Path) -> FormatError:
    """Return the error for a folder without a readable document."""
    names = [name for name, reader in READERS.items() if reader.is_installed]
    return FormatError(folder, 0, f"holds no readable document; {' '.join(names)} can be read")


def read_document(file: Path, name: str, cut: Cut) -> Iterator[Passage]:
    """Read a file, called `name`, and cut it into passages; without limits."""
    count = 0
    for section in READERS[file.suffix.lower()].read(file):
        title, meta = section.title, {**section.meta, "file": name}
        if len(title) > _LONGEST_TITLE:
            title = title[: _LONGEST_TITLE - 1] + "…"
        for text in _portions(_UNREADABLE.sub("…", section.text)):
            for piece in cut(Passage(name, title, text, meta)):
                if piece.text:
                    count += 1
                    yield replace(piece, id=f"{name}#{count}")
    if not count:
        raise FormatError(file, 0, "holds no text; if its pages are pictures, run OCR first")


def _portions(text: str) -> Iterator[str]:
    """Cut a text that is too long to tokenize at once, where a line or a word ends."""
    while len(text) > _PORTION:
        end = max(text.rfind("\n", 0, _PORTION), text.rfind(" ", _PORTION // 2, _PORTION))
        end = end if end > 0 else _PORTION
        yield text[:end]
        text = text[end:]
    yield text


def passage_ids(name: str, count: int) -> list[str]:
    """Return the ids of the first passages of a file.

    >>> passage_ids("notes/cats.md", 2)
    ['notes/cats.md#1', 'notes/cats.md#2']
    """
    return [f"{name}#{number}" for number in range(1, count + 1)]


def _sniff(head: Head) -> bool:
    return head.path.is_dir() and not is_beir(head) and not is_extracted(head)


@file_format("text", _sniff)
def text_folder(path: Path) -> Located[Passage]:
    """a folder of .txt and .md files, one passage each."""
    root = path if path.is_dir() else path.parent
    files = list(files_below(path, (".txt", ".md"))) if path.is_dir() else [path]
    if not files:
        raise FormatError(path, 0, "the folder holds no .txt or .md file; name the right folder")
    for file in files:
        lines = [text for _, text in read_lines(file)]
        before_code = takewhile(lambda line: not line.startswith(prose.FENCE), lines)
        headings = (match[1] for line in before_code if (match := prose.HEADING.match(line)))
        title = next(headings, "") if file.suffix.lower() == ".md" else ""
        title = title.strip().rstrip("#").rstrip() or file.stem
        yield 0, Passage(name_below(file, root), title, "\n".join(lines))


FORMATS = (text_folder,)
