"""The text of .txt, .md and .html files, section by section.

A section is what stands below a heading; its title is the document's and those of the headings
above it. Markup goes, and what a browser would not show.
"""

import re
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from time import monotonic
from typing import NamedTuple, TypeVar

from jpr.errors import FormatError
from jpr.formats.corpus.folder import FENCE, HEADING

MOST_BYTES = 50 << 20
"""Of a file; larger ones are left out."""
SECONDS = 60.0
"""For the reading of a file, after which no further part of it is begun."""
DAMAGE = (
    LookupError,
    ValueError,
    TypeError,
    AttributeError,
    ArithmeticError,
    AssertionError,
    OSError,
    EOFError,
    RuntimeError,
    zlib.error,
    struct.error,
)
"""What libraries let through where a file is not what it says."""
T = TypeVar("T")
_NO_META: Mapping[str, object] = {}


class Unit(NamedTuple):
    """A piece of a document that passages are cut from: a section, a page, a row."""

    title: str
    text: str
    meta: Mapping[str, object] = _NO_META


Block = tuple[int, str]
"""A heading and its level, from 1; or text, of level 0."""


def sections(title: str, blocks: Iterable[Block]) -> Iterator[Unit]:
    """Put text below its headings.

    >>> found = sections("Cats", [(1, "Cats"), (0, "They purr."), (2, "Food"), (0, "Fish.")])
    >>> [(unit.title, unit.text) for unit in found]
    [('Cats', 'They purr.'), ('Cats: Food', 'Fish.')]
    """
    above: list[Block] = []
    texts: list[str] = []

    def unit() -> Iterator[Unit]:
        if texts:
            names = [name for _, name in above if name != title]
            yield Unit(": ".join([title, *names]), "\n".join(texts))

    for level, text in blocks:
        if not level:
            texts.extend([text] if text else [])
            continue
        yield from unit()
        texts.clear()
        above[:] = [*(one for one in above if one[0] < level), (level, text)]
    yield from unit()


def read_bytes(file: Path) -> bytes:
    """Read a file, unless it is too large."""
    try:
        with file.open("rb") as stream:
            data = stream.read(MOST_BYTES + 1)
    except OSError as error:
        raise FormatError(file, 0, f"cannot be read: {error.strerror}") from error
    check_size(file, "is larger", len(data), MOST_BYTES)
    return data


def check_size(file: Path, problem: str, size: int, most: int) -> None:
    """Refuse what is larger than it may be."""
    if size > most:
        raise FormatError(file, 0, f"{problem} than {most >> 20} MB; split it")


def timely(file: Path, parts: Iterable[T]) -> Iterator[T]:
    """Pass on the parts of a file while there is time."""
    until = monotonic() + SECONDS
    for part in parts:
        yield part
        check_time(file, until)


def check_time(file: Path, until: float) -> None:
    """Refuse to go on with a file when its time is over."""
    if monotonic() > until:
        raise FormatError(file, 0, f"takes more than {SECONDS:g} seconds to read; split it")


def read_text(file: Path) -> str:
    """Read a file of text in UTF-8, or in UTF-16 that says so."""
    data = read_bytes(file)
    try:
        if data.startswith((b"\xff\xfe", b"\xfe\xff")):
            return data.decode("utf-16")
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError(file, 0, "is not UTF-8; convert it, e.g. with iconv") from error
    if "\0" in text:
        raise FormatError(file, 0, "is no text; it holds zero bytes")
    return text


def read_plain(file: Path) -> Iterator[Unit]:
    """Read a .txt file, which is one section."""
    yield Unit(file.stem, read_text(file))


_IMAGE_OR_LINK = re.compile(r"!?\[([^\[\]\n]*+)\]\([^()\n]*+\)")
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_MARKS = re.compile(r"\*\*|__|`")
_FRONT = re.compile(r"---[ \t]*\r?\n((?:(?!---)[^\n]*+\n)*+)---[ \t]*(?:\r?\n|\Z)")
_FRONT_TITLE = re.compile(r"^title:[ \t]*+(.*)$", re.MULTILINE)


def read_markdown(file: Path) -> Iterator[Unit]:
    """Read a .md file; its title is the one in front, its first heading, or the file's name."""
    text = read_text(file)
    front = _FRONT.match(text)
    named = _FRONT_TITLE.search(front[1]) if front else None
    blocks = list(_markdown(text[front.end() :] if front else text))
    first = next((name for level, name in blocks if level == 1), "")
    yield from sections((named[1].strip("'\" \r") if named else "") or first or file.stem, blocks)


def _markdown(text: str) -> Iterator[Block]:
    in_code = False
    for line in _COMMENT.sub("", text).splitlines():
        if line.startswith(FENCE):
            in_code = not in_code
            continue
        heading = None if in_code else HEADING.match(line)
        shown = line if in_code else _MARKS.sub("", _IMAGE_OR_LINK.sub(r"\1", line))
        if heading:
            level = len(line) - len(line.lstrip("#"))
            yield level, _MARKS.sub("", heading[1]).strip().rstrip("#").rstrip()
        elif shown.strip():
            yield 0, shown.rstrip()


_UNSEEN = ("head", "script", "style", "template", "noscript", "svg", "select", "button")
_BLOCKS = frozenset(
    """
    address article aside blockquote body br caption dd details div dl dt fieldset figcaption
    figure footer form h1 h2 h3 h4 h5 h6 header hr html li main nav ol p pre section summary table
    tbody td tfoot th thead title tr ul
    """.split()  # noqa: SIM905  a list literal would fill a page
)
_LEVELS = {f"h{level}": level for level in range(1, 7)}
_CHARSET = re.compile(rb"""charset\s*+=\s*+["']?([\w.:-]++)""", re.IGNORECASE)


def read_html(file: Path) -> Iterator[Unit]:
    """Read a .html file; its title is its own, its first heading, or the file's name."""
    from lxml import etree

    data = _html_text(read_bytes(file)).encode("utf-8", "replace")
    shown = _Shown(file)
    try:
        etree.fromstring(data, etree.HTMLParser(encoding="utf-8", target=shown))
    except (etree.ParserError, etree.XMLSyntaxError) as error:
        raise FormatError(file, 0, f"cannot be read as HTML ({error})") from error
    first = next((text for level, text in shown.blocks if level == 1), "")
    yield from sections(shown.title or first or file.stem, shown.blocks)


def _html_text(data: bytes) -> str:
    """Decode HTML by what it says of itself; what says nothing is UTF-8 or Windows'."""
    named = _CHARSET.search(data[:4096])
    names = [named[1].decode("ascii", "replace")] if named else []
    for name in ("utf-16", *names, "utf-8-sig"):
        if name == "utf-16" and not data.startswith((b"\xff\xfe", b"\xfe\xff")):
            continue
        try:
            return data.decode(name)
        except (LookupError, ValueError):
            continue
    return data.decode("cp1252", "replace")


class _Shown:
    """Takes what a parser tells of a page and keeps what a browser would show.

    There is no tree: it would take thirty times the memory, and with a hundred thousand attributes
    of one element for ever.
    """

    def __init__(self, file: Path) -> None:
        self._file, self._until = file, monotonic() + SECONDS
        self.title = ""
        self.blocks: list[Block] = []
        self._parts: list[str] = []
        self._titles: list[str] | None = None
        self._unseen = 0
        """In how many elements that are not shown we are."""

    def start(self, tag: str, _: Mapping[str, str]) -> None:
        """Take the start of an element."""
        if tag == "title" and not self.title:
            self._titles = []
        self._unseen += tag in _UNSEEN
        self._end_block(tag, 0)

    def end(self, tag: str) -> None:
        """Take the end of an element."""
        if tag == "title" and self._titles is not None:
            self.title, self._titles = " ".join("".join(self._titles).split()), None
        self._end_block(tag, _LEVELS.get(tag, 0))
        self._unseen -= tag in _UNSEEN

    def data(self, text: str) -> None:
        """Take a text."""
        if self._titles is not None:
            self._titles.append(text)
        if not self._unseen:
            self._parts.append(text)

    def close(self) -> None:
        """Take the end of the page."""
        self._end_block("html", 0)

    def _end_block(self, tag: str, level: int) -> None:
        check_time(self._file, self._until)
        if tag in _BLOCKS:
            if text := " ".join("".join(self._parts).split()):
                self.blocks.append((level, text))
            self._parts.clear()
