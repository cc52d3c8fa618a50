"""The text of .pdf files, page by page, and of .docx files, section by section."""

import io
import logging
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jpr.errors import FormatError
from jpr.formats.corpus.prose import (
    DAMAGE,
    MAX_BYTES,
    Block,
    Section,
    check_size,
    read_bytes,
    sections,
    timely,
)

_HYPHEN = re.compile(r"(?<=[a-z])-\n(?=[a-z])")
_LIGATURES = str.maketrans({"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl"})
_UNPACKED = 4 * MAX_BYTES  # of a .docx, all its parts together
_MARKUP = 32 << 20  # of all XML in a .docx: as a tree it may take thirty times the memory
_OLD_DOC = b"\xd0\xcf\x11\xe0"  # begins an old .doc, and a document that Word encrypted


def read_pdf(file: Path) -> Iterator[Section]:
    """Read a .pdf file; its title is the file's name, `page` of the meta counts from 1."""
    from pypdf import PdfReader
    from pypdf.errors import DependencyError, FileNotDecryptedError, PyPdfError

    data = read_bytes(file)
    try:
        with _quiet():
            yield from _pages(PdfReader(io.BytesIO(data)), file)
    except (FileNotDecryptedError, DependencyError) as error:
        raise FormatError(file, 0, "is encrypted; save it without a password") from error
    except (PyPdfError, *DAMAGE) as error:
        raise FormatError(file, 0, f"is damaged, or not a .pdf ({error})") from error


def _pages(reader: Any, file: Path) -> Iterator[Section]:  # noqa: ANN401  it may be absent
    size = 0
    for number, page in enumerate(timely(file, reader.pages), start=1):
        text = _HYPHEN.sub("", page.extract_text().translate(_LIGATURES))
        size += len(text)
        if size > MAX_BYTES:
            raise FormatError(file, 0, f"is too much to read, from page {number} on; split it")
        yield Section(file.stem, text, {"page": number})


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the library's log messages about flaws of a file."""
    logger = logging.getLogger("pypdf")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def read_docx(file: Path) -> Iterator[Section]:
    """Read a .docx file."""
    from docx import Document
    from docx.opc.exceptions import OpcError
    from lxml.etree import LxmlError

    data = read_bytes(file)
    if data.startswith(_OLD_DOC):
        raise FormatError(file, 0, "is encrypted, or an old .doc; save it as .docx")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as packed:
            _check_parts(file, packed.infolist())
        document = Document(io.BytesIO(data))
        blocks = list(timely(file, _docx_blocks(document)))
        title = document.core_properties.title.strip()
    except (zipfile.BadZipFile, OpcError, LxmlError, *DAMAGE) as error:
        raise FormatError(file, 0, f"is damaged, or not a .docx ({error})") from error
    yield from sections(file, title, blocks)


def _check_parts(file: Path, parts: list[zipfile.ZipInfo]) -> None:
    """Refuse to unpack too much, by the sizes in the archive; no more than these is unpacked."""
    markup = [part for part in parts if part.filename.lower().endswith((".xml", ".rels"))]
    check_size(file, "unpacks to more", sum(part.file_size for part in parts), _UNPACKED)
    unpacked = sum(part.file_size for part in markup)
    check_size(file, "has XML that unpacks to more", unpacked, _MARKUP)


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
    """Read a table row by row; a vertically merged cell repeats the text from above.

    The library's own cells are not used: one that claims to span a billion columns becomes a
    billion of them.
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
    """Return the level of a heading by its style; 0 for other paragraphs.

    >>> _level("Title"), _level("Heading 2"), _level("Normal")
    (1, 2, 0)
    """
    name, _, number = style.partition(" ")
    if style == "Title":
        return 1
    return int(number) if name == "Heading" and number.isdecimal() else 0
