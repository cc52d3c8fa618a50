"""The text of a .pdf file, page by page."""

import io
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jpr.errors import FormatError
from jpr.formats.corpus.prose import DAMAGE, MOST_BYTES, Unit, read_bytes, timely

_HYPHEN = re.compile(r"(?<=[a-z])-\n(?=[a-z])")
"""A word that goes on in the next line."""
_LIGATURES = {
    ord(sign): letters
    for sign, letters in zip("ﬀﬁﬂﬃﬄ", ("ff", "fi", "fl", "ffi", "ffl"), strict=True)
}


def read_pdf(file: Path) -> Iterator[Unit]:
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
        raise FormatError(file, 0, f"is damaged, or no .pdf ({error})") from error


def _pages(reader: Any, file: Path) -> Iterator[Unit]:  # noqa: ANN401  it may be absent
    size = 0
    for number, page in enumerate(timely(file, reader.pages), start=1):
        text = _HYPHEN.sub("", page.extract_text().translate(_LIGATURES))
        size += len(text)
        if size > MOST_BYTES:
            raise FormatError(file, 0, f"is too much to read, from page {number} on; split it")
        yield Unit(file.stem, text, {"page": number})


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep to itself what the library says of every flaw of a file."""
    logger = logging.getLogger("pypdf")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)
