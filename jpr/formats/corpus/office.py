"""The text of .pdf files, page by page, and of .docx files, section by section."""

import io
import logging
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jpr.errors import FormatError
from jpr.formats.corpus import prose
from jpr.formats.corpus.prose import DAMAGE, MAX_BYTES, Block, Section

_HYPHEN = re.compile(r"(?<=[a-z])-\n(?=[a-z])")
_LIGATURES = str.maketrans({"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl"})
_HEADING_STYLE = re.compile("Title|Heading ([0-9]+)")
_UNPACKED = 4 * MAX_BYTES  # of a .docx, all its parts together
_MARKUP = 32 << 20  # of all XML in a .docx: as a tree it may take thirty times the memory
_OLD_DOC = b"\xd0\xcf\x11\xe0"  # begins an old .doc, and a document that Word encrypted


def read_pdf(file: Path) -> Iterator[Section]:
    """Read a .pdf file; its title is the file's name, `page` of the meta counts from 1."""
    from pypdf import PdfReader
    from pypdf.errors import DependencyError, FileNotDecryptedError, PyPdfError

    data, size = prose.read_bytes(file), 0
    logger = logging.getLogger("pypdf")  # it reports flaws of a file that do not stop reading
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        pages = PdfReader(io.BytesIO(data)).pages
        for number, page in enumerate(pages, start=1):
            text = _HYPHEN.sub("", page.extract_text().translate(_LIGATURES))
            size += len(text)
            if size > MAX_BYTES:
                problem = f"is too much to read, from page {number} on; split it"
                raise FormatError(file, 0, problem)
            yield Section(file.stem, text, {"page": number})
    except (FileNotDecryptedError, DependencyError) as error:
        raise FormatError(file, 0, "is encrypted; save it without a password") from error
    except (PyPdfError, *DAMAGE) as error:
        raise FormatError(file, 0, f"is damaged, or not a .pdf ({error})") from error
    finally:
        logger.setLevel(level)


def read_docx(file: Path) -> Iterator[Section]:
    """Read a .docx file; it is not unpacked if it says that this would be too much."""
    from docx import Document
    from docx.opc.exceptions import OpcError
    from lxml.etree import LxmlError

    data = prose.read_bytes(file)
    if data.startswith(_OLD_DOC):
        raise FormatError(file, 0, "is encrypted, or an old .doc; save it as .docx")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as packed:  # no more than it says is unpacked
            sizes = [(part.filename.lower(), part.file_size) for part in packed.infolist()]
        markup = sum(size for name, size in sizes if name.endswith((".xml", ".rels")))
        prose.check_size(file, "unpacks to more", sum(size for _, size in sizes), _UNPACKED)
        prose.check_size(file, "has XML that unpacks to more", markup, _MARKUP)
        document = Document(io.BytesIO(data))
        blocks = list(_docx_blocks(document))
        title = document.core_properties.title.strip()
    except (zipfile.BadZipFile, OpcError, LxmlError, *DAMAGE) as error:
        raise FormatError(file, 0, f"is damaged, or not a .docx ({error})") from error
    yield from prose.sections(file, title, blocks)


def _docx_blocks(document: Any) -> Iterator[Block]:  # noqa: ANN401  it may be absent
    from docx.table import Table

    for part in document.iter_inner_content():
        if isinstance(part, Table):
            yield from _docx_rows(part)
        else:
            text, style = part.text.strip(), part.style.name if part.style else ""
            heading = _HEADING_STYLE.fullmatch(style) if text else None
            yield int(heading[1] or 1) if heading else 0, text


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
