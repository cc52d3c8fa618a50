"""A folder of documents as people keep them, cut into passages.

.txt and .md, .html and .docx section by section, .pdf page by page, .csv and .jsonl row by row.
Passage n of a file has the id `file#n`, counted from 1, the file by its path below the folder; its
meta tells `file`, and `page` or `row` where there are such. Hidden files are passed over, and so
are links that lead out of the folder.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

from tokenizers import Tokenizer

from jpr.errors import FormatError, MissingExtraError
from jpr.formats.corpus.folder import files_below, name_below
from jpr.formats.corpus.pdf import read_pdf
from jpr.formats.corpus.prose import Unit, read_html, read_markdown, read_plain
from jpr.formats.corpus.split import split_wordpieces
from jpr.formats.corpus.tables import read_csv, read_jsonl
from jpr.formats.corpus.word import read_docx
from jpr.stages import Progress
from jpr.types import Passage

Cut = Callable[[Passage], Iterable[Passage]]
"""Cuts a passage into pieces."""
EXTRA = "documents"
_ENDINGS = ".txt .md .html .pdf .docx .csv and .jsonl"
WORDPIECES = 140
"""Of a passage at most, some hundred words: with title and question it fits what models read."""
_PORTION = 100_000
_LONGEST_TITLE = 500
"""Characters."""
_UNREADABLE = re.compile("(?<![!-~])[!-~]{300,}+")
"""What no person reads, a picture in base64 say, and models take for one unknown word."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of files."""

    read: Callable[[Path], Iterator[Unit]]
    needs: tuple[str, ...] = ()
    """Packages of the extra."""


_HTML = Kind(read_html, ("lxml",))
KINDS = {
    ".txt": Kind(read_plain),
    ".md": Kind(read_markdown),
    ".html": _HTML,
    ".htm": _HTML,
    ".pdf": Kind(read_pdf, ("pypdf",)),
    ".docx": Kind(read_docx, ("docx", "lxml")),
    ".csv": Kind(read_csv),
    ".jsonl": Kind(read_jsonl),
}
"""What can be read, by the ending of its name."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a folder holds."""

    files: dict[str, Path]
    """Those that can be read, by their paths below the folder."""
    problems: tuple[str, ...]
    """Why others cannot be read, a sentence each."""


def find_documents(folder: Path) -> Found:
    """List the documents below a folder, which links do not lead out of."""
    root = folder.resolve()
    if not root.is_dir():
        problem = "is no folder" if root.exists() else "there is no such folder"
        raise FormatError(folder, 0, f"{problem}; name a folder of documents")
    files: dict[str, Path] = {}
    problems: dict[str, None] = {}

    def refuse(problem: Exception) -> None:
        problems[str(problem)] = None

    for file in files_below(root, tuple(KINDS), refuse):
        if not file.is_file() or not file.resolve().is_relative_to(root):
            continue
        ending = file.suffix.lower()
        if not all(map(find_spec, KINDS[ending].needs)):
            refuse(MissingExtraError(f"{folder}: reading {ending} files", EXTRA))
            continue
        try:
            files[name_below(file, root)] = file
        except FormatError as error:
            refuse(error)
    return Found(files, tuple(problems))


def read_documents(
    folder: Path, found: Found, cut: Cut, note: Callable[[str], None], progress: Progress
) -> Iterator[Passage]:
    """Read all documents of a folder; what cannot be read is left out, and `note` is told."""
    for problem in found.problems:
        note(f"{problem}; left out")
    empty = True
    for name, file in found.files.items():
        try:
            passages = _read(file, name, cut)
        except FormatError as error:
            note(f"{error}; left out")
        else:
            empty = False
            yield from passages
        progress(1)
    if empty:
        raise nothing_read(folder)


def nothing_read(folder: Path) -> FormatError:
    """Return what is wrong with a folder without a document that can be read."""
    return FormatError(folder, 0, f"holds no text that can be read; {_ENDINGS} can")


def usual_cut(tokenizer: Tokenizer) -> Cut:
    """Return the cut into pieces that the models read whole."""
    return partial(split_wordpieces, tokenizer=tokenizer, limit=WORDPIECES)


def read_document(
    file: Path, name: str, tokenizer: Tokenizer, most: int | None = None
) -> list[Passage]:
    """Read a file, called `name`, and cut it into passages; more than `most` are an error."""
    return _read(file, name, usual_cut(tokenizer), most)


def _read(file: Path, name: str, cut: Cut, most: int | None = None) -> list[Passage]:
    every = (
        piece
        for unit in KINDS[file.suffix.lower()].read(file)
        for text in _portions(_UNREADABLE.sub("…", unit.text))
        for piece in cut(Passage(name, _short(unit.title), text, {**unit.meta, "file": name}))
        if piece.text
    )
    pieces = list(islice(every, None if most is None else most + 1))
    if most is not None and len(pieces) > most:
        raise FormatError(file, 0, f"is more than {most:,} passages; split it")
    if not pieces:
        raise FormatError(file, 0, "holds no text; if its pages are pictures, recognise them first")
    return [
        Passage(id, piece.title, piece.text, piece.meta)
        for id, piece in zip(passage_ids(name, len(pieces)), pieces, strict=True)
    ]


def _short(title: str) -> str:
    """Cut a title that no title is as long as: every passage below it has it."""
    return title if len(title) <= _LONGEST_TITLE else title[: _LONGEST_TITLE - 1] + "…"


def _portions(text: str) -> Iterator[str]:
    """Cut a text that is too long to be tokenised at once, where a line or a word ends."""
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
