"""The text of .txt, .md, .html and .docx files, section by section.

A section is what stands below a heading; its title is the document's and those of the headings
above it. Markup goes, and what a browser would not show.
"""

import io
import re
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from jpr.corpus.folder import FENCE, HEADING
from jpr.errors import FormatError

MOST_BYTES = 50 << 20
"""Of a file; larger ones are left out."""
_UNPACKED = 4 * MOST_BYTES
"""Of a .docx, all its parts together."""
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
            texts.append(text)
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
    if len(data) > MOST_BYTES:
        raise FormatError(file, 0, f"is larger than {MOST_BYTES >> 20} MB; split it")
    return data


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


_UNSEEN = ("script", "style", "template", "noscript", "svg", "select", "button")
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
    try:
        root = etree.fromstring(data, etree.HTMLParser(encoding="utf-8"))
    except (etree.ParserError, etree.XMLSyntaxError) as error:
        raise FormatError(file, 0, f"cannot be read as HTML ({error})") from error
    if root is None:
        return
    title = " ".join((root.findtext(".//title") or "").split())
    etree.strip_elements(root, "head", *_UNSEEN, with_tail=False)
    etree.strip_tags(root, etree.Comment, etree.ProcessingInstruction)
    blocks = list(_html_blocks(etree.iterwalk(root, events=("start", "end"))))
    first = next((text for level, text in blocks if level == 1), "")
    yield from sections(title or first or file.stem, blocks)


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


def _html_blocks(walk: Iterable[tuple[str, Any]]) -> Iterator[Block]:
    parts: list[str] = []

    def block(level: int) -> Iterator[Block]:
        if text := " ".join("".join(parts).split()):
            yield level, text
        parts.clear()

    for event, element in walk:
        ends = event == "end"
        if element.tag in _BLOCKS:
            yield from block(_LEVELS.get(element.tag, 0) if ends else 0)
        parts.append((element.tail if ends else element.text) or "")
    yield from block(0)


_OLD = b"\xd0\xcf\x11\xe0"
"""How an old .doc begins, and what Word makes of a document with a password."""


def read_docx(file: Path) -> Iterator[Unit]:
    """Read a .docx file; its title is its own, its first heading, or the file's name."""
    from docx import Document
    from docx.opc.exceptions import OpcError
    from lxml.etree import LxmlError

    data = read_bytes(file)
    if data.startswith(_OLD):
        raise FormatError(file, 0, "is encrypted, or an old .doc; save it as .docx")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as packed:
            if sum(part.file_size for part in packed.infolist()) > _UNPACKED:
                raise FormatError(file, 0, f"unpacks to more than {_UNPACKED >> 20} MB; split it")
        document = Document(io.BytesIO(data))
        blocks = list(_docx_blocks(document))
        title = document.core_properties.title.strip()
    except (zipfile.BadZipFile, OpcError, LxmlError, *DAMAGE) as error:
        raise FormatError(file, 0, f"is damaged, or no .docx ({error})") from error
    first = next((text for level, text in blocks if level == 1), "")
    yield from sections(title or first or file.stem, blocks)


def _docx_blocks(document: Any) -> Iterator[Block]:  # noqa: ANN401  it may be absent
    from docx.table import Table

    for part in document.iter_inner_content():
        if isinstance(part, Table):
            for row in part.rows:
                cells = dict.fromkeys(" ".join(cell.text.split()) for cell in row.cells)
                if text := " | ".join(cell for cell in cells if cell):
                    yield 0, text
        elif text := part.text.strip():
            yield _level(part.style.name if part.style else ""), text


def _level(style: str) -> int:
    """Return the level of a heading by its style; 0 of other paragraphs.

    >>> _level("Title"), _level("Heading 2"), _level("Normal")
    (1, 2, 0)
    """
    name, _, number = style.partition(" ")
    if style == "Title":
        return 1
    return int(number) if name == "Heading" and number.isdecimal() else 0
