"""The text of .txt, .md and .html files, section by section.

A section is the text below a heading; its title joins the document's and those of the headings
above it. Markup is removed, and so is what a browser would not show.
"""

import re
import struct
import zlib
from codecs import BOM_UTF16_BE, BOM_UTF16_LE, BOM_UTF32_BE, BOM_UTF32_LE, lookup
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from jpr.errors import FormatError
from jpr.io.atomic import explain_read_errors
from jpr.types import NO_META

MAX_BYTES = 50 << 20  # of a file; larger ones are left out
DAMAGE = (  # exceptions that libraries raise for a damaged file
    *(LookupError, ValueError, TypeError, AttributeError, ArithmeticError, AssertionError),
    *(OSError, EOFError, RuntimeError, zlib.error, struct.error),
)
HEADING = re.compile(r"#{1,6}[ \t]++(.*)")  # of Markdown
FENCE = ("```", "~~~")


class Section(NamedTuple):
    """A part of a document that passages are cut from: a section, a page, a row."""

    title: str
    text: str
    meta: Mapping[str, object] = NO_META


Block = tuple[int, str]  # the level of a heading, from 1, and the heading; or 0 and text


def sections(file: Path, title: str, blocks: Sequence[Block]) -> Iterator[Section]:
    """Group text under its headings; without a title, the first heading or the file's name is it.

    >>> blocks = [(1, "Cats"), (0, "They purr."), (2, "Food"), (0, "Fish.")]
    >>> [(section.title, section.text) for section in sections(Path("a.md"), "", blocks)]
    [('Cats', 'They purr.'), ('Cats: Food', 'Fish.')]
    """
    title = title or next((text for level, text in blocks if level == 1), "") or file.stem
    above: list[Block] = []
    texts: list[str] = []
    for level, text in (*blocks, (1, "")):  # the last ends the last section
        if not level:
            texts += [text] if text else []
            continue
        if texts:
            names = [name for _, name in above if name != title]
            yield Section(": ".join([title, *names]), "\n".join(texts))
            texts = []
        above = [*(one for one in above if one[0] < level), (level, text)]


def read_bytes(file: Path) -> bytes:
    """Read a file, unless it is too large."""
    with explain_read_errors(file), file.open("rb") as stream:
        data = stream.read(MAX_BYTES + 1)
    check_size(file, "is larger", len(data), MAX_BYTES)
    return data


def check_size(file: Path, problem: str, size: int, limit: int) -> None:
    """Refuse a size above the limit."""
    if size > limit:
        raise FormatError(file, 0, f"{problem} than {limit >> 20} MB; split it")


def read_text(file: Path) -> str:
    """Read a text file in UTF-8, or in UTF-16 or UTF-32 with a byte order mark."""
    data = read_bytes(file)
    name = _marked_codec(data) or "utf-8-sig"
    try:
        text = data.decode(name)
    except UnicodeDecodeError as error:
        shown = name.removesuffix("-sig").upper()
        raise FormatError(file, 0, f"is not {shown}; convert it, e.g. with iconv") from error
    if "\0" in text:
        raise FormatError(file, 0, "is not text; it holds zero bytes")
    return text


def _marked_codec(data: bytes) -> str | None:
    """Return the codec that a byte order mark names; that of UTF-32 may begin with UTF-16's."""
    if data.startswith((BOM_UTF32_LE, BOM_UTF32_BE)):
        return "utf-32"
    return "utf-16" if data.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else None


def read_plain(file: Path) -> Iterator[Section]:
    """Read a .txt file, which is one section."""
    yield Section(file.stem, read_text(file))


_IMAGE_OR_LINK = re.compile(r"!?\[([^\[\]\n]*+)\]\([^()\n]*+\)")
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_MARKS = re.compile(r"\*\*|__|`")
_FRONT = re.compile(r"---[ \t]*\r?\n((?:(?!---)[^\n]*+\n)*+)---[ \t]*(?:\r?\n|\Z)")
_FRONT_TITLE = re.compile(r"^title:[ \t]*+(.*)$", re.MULTILINE)


def read_markdown(file: Path) -> Iterator[Section]:
    """Read a .md file; its title may be in its front matter."""
    text = read_text(file)
    front = _FRONT.match(text)
    named = _FRONT_TITLE.search(front[1]) if front else None
    blocks = list(_markdown(text[front.end() :] if front else text))
    yield from sections(file, named[1].strip("'\" \r") if named else "", blocks)


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
_CODECS = re.compile(
    "utf-8(-sig)?|utf-(16|32)(-[lb]e)?|ascii|iso8859-[0-9]+|cp(866|874|125.)|tis-620|koi8-[ru]|mac-roman"
    "|shift_jis|euc_jp|iso2022_jp|euc_kr|big5(hkscs)?|gb2312|gbk|gb18030|cp9(32|49)"
)
"""Those of the web, by Python's names. Others, such as punycode, may take quadratic time."""


def read_html(file: Path) -> Iterator[Section]:
    """Read a .html file."""
    from lxml import etree

    data = _html_text(read_bytes(file)).encode("utf-8", "replace")
    visible = _VisibleText()
    try:
        etree.fromstring(data, etree.HTMLParser(encoding="utf-8", target=visible))
    except (etree.ParserError, etree.XMLSyntaxError) as error:
        raise FormatError(file, 0, f"cannot be read as HTML ({error})") from error
    yield from sections(file, visible.title, visible.blocks)


def _html_text(data: bytes) -> str:
    """Decode HTML by its charset, if it is one of the web, otherwise as UTF-8 or cp1252."""
    named = _CHARSET.search(data[:4096])
    names = [named[1].decode("ascii", "replace")] if named else []
    if marked := _marked_codec(data):
        names.insert(0, marked)
    for name in (*names, "utf-8-sig"):
        with suppress(LookupError, ValueError):
            if _CODECS.fullmatch(lookup(name).name):
                return data.decode(name)
    return data.decode("cp1252", "replace")


class _VisibleText:
    """A parser target that keeps the text a browser would show.

    No tree is built: it takes 3 times the memory, and quadratic time for an element with many
    attributes (16 s for 100,000).
    """

    def __init__(self) -> None:
        self.title = ""
        self.blocks: list[Block] = []
        self._parts: list[str] = []
        self._titles: list[str] | None = None
        self._unseen = 0  # open elements that are not shown

    def start(self, tag: str, _: Mapping[str, str]) -> None:
        if tag == "title" and not self.title:
            self._titles = []
        self._unseen += tag in _UNSEEN
        self._end_block(tag, 0)

    def end(self, tag: str) -> None:
        if tag == "title" and self._titles is not None:
            self.title, self._titles = " ".join("".join(self._titles).split()), None
        self._end_block(tag, _LEVELS.get(tag, 0))
        self._unseen -= tag in _UNSEEN

    def data(self, text: str) -> None:
        if self._titles is not None:
            self._titles.append(text)
        if not self._unseen:
            self._parts.append(text)

    def close(self) -> None:
        self._end_block("html", 0)

    def _end_block(self, tag: str, level: int) -> None:
        if tag in _BLOCKS:
            if text := " ".join("".join(self._parts).split()):
                self.blocks.append((level, text))
            self._parts.clear()
