"""The text of a .docx file, section by section."""

import io
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from jpr.errors import FormatError
from jpr.formats.corpus.prose import (
    DAMAGE,
    MOST_BYTES,
    Block,
    Unit,
    check_size,
    read_bytes,
    sections,
    timely,
)

_UNPACKED = 4 * MOST_BYTES
"""Of a .docx, all its parts together."""
_MARKUP = 32 << 20
"""Bytes of all XML in a .docx: as a tree they may take thirty times the memory."""
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
            _check_parts(file, packed.infolist())
        document = Document(io.BytesIO(data))
        blocks = list(timely(file, _docx_blocks(document)))
        title = document.core_properties.title.strip()
    except (zipfile.BadZipFile, OpcError, LxmlError, *DAMAGE) as error:
        raise FormatError(file, 0, f"is damaged, or no .docx ({error})") from error
    first = next((text for level, text in blocks if level == 1), "")
    yield from sections(title or first or file.stem, blocks)


def _check_parts(file: Path, parts: Iterable[zipfile.ZipInfo]) -> None:
    """Refuse to unpack what would be too large, by what it says of itself; no more is unpacked."""
    whole = markup = 0
    for part in parts:
        whole += part.file_size
        if part.filename.lower().endswith((".xml", ".rels")):
            markup += part.file_size
    check_size(file, "unpacks to more", whole, _UNPACKED)
    check_size(file, "has XML that unpacks to more", markup, _MARKUP)


def _docx_blocks(document: Any) -> Iterator[Block]:  # noqa: ANN401  it may be absent
    from docx.table import Table

    for part in document.iter_inner_content():
        if isinstance(part, Table):
            yield from _docx_rows(part)
        elif text := part.text.strip():
            yield _level(part.style.name if part.style else ""), text
        else:
            yield 0, ""


def _docx_rows(table: Any) -> Iterator[Block]:  # noqa: ANN401  it may be absent
    """Read a table row by row; a cell that goes on from above has the text from there.

    The library's own cells are not asked: one that says it is a billion columns wide is a billion.
    """
    above: dict[int, str] = {}
    for row in table.rows:
        column, texts = row.grid_cols_before, dict[int, str]()
        for cell in row._tr.tc_lst:
            own = " ".join(" ".join(part.text for part in cell.p_lst).split())
            texts[column] = above.get(column, "") if cell.vMerge == "continue" else own
            column += max(cell.grid_span, 1)
        above = texts
        yield 0, " | ".join(dict.fromkeys(filter(None, texts.values())))


def _level(style: str) -> int:
    """Return the level of a heading by its style; 0 of other paragraphs.

    >>> _level("Title"), _level("Heading 2"), _level("Normal")
    (1, 2, 0)
    """
    name, _, number = style.partition(" ")
    if style == "Title":
        return 1
    return int(number) if name == "Heading" and number.isdecimal() else 0
