"""Documents made on the spot: pages of a .pdf, a .docx, and what is wrong with them."""

import io
import zipfile
from collections.abc import Sequence
from pathlib import Path

from docx import Document
from pypdf import PdfReader, PdfWriter


def pdf(*pages: str) -> bytes:
    """A .pdf with a line of text on each page, in the plainest way there is."""
    n = len(pages)
    texts = [page.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)") for page in pages]
    streams = [f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET" for text in texts]
    kids = " ".join(f"{4 + at} 0 R" for at in range(n))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {n} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        *(_page(4 + n + at) for at in range(n)),
        *(f"<< /Length {len(one)} >>\nstream\n{one}\nendstream" for one in streams),
    ]
    return _file(objects)


def _page(contents: int) -> str:
    fonts = "/Resources << /Font << /F1 3 0 R >> >>"
    return f"<< /Type /Page /Parent 2 0 R {fonts} /Contents {contents} 0 R >>"


def _file(objects: Sequence[str]) -> bytes:
    made, offsets = b"%PDF-1.4\n", []
    for number, one in enumerate(objects, start=1):
        offsets.append(len(made))
        made += f"{number} 0 obj\n{one}\nendobj\n".encode("latin-1")
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    size = len(objects) + 1
    tail = f"xref\n0 {size}\n0000000000 65535 f \n{table}trailer\n<< /Size {size} /Root 1 0 R >>\n"
    return made + f"{tail}startxref\n{len(made)}\n%%EOF\n".encode()


def with_password(data: bytes) -> bytes:
    """The same .pdf, for whom has the password."""
    writer, out = PdfWriter(clone_from=PdfReader(io.BytesIO(data))), io.BytesIO()
    writer.encrypt("secret", algorithm="RC4-128")
    writer.write(out)
    return out.getvalue()


def write_docx(path: Path | io.BytesIO) -> None:
    """A .docx of two sections and a table."""
    document = Document()
    document.add_heading("Lighthouses", 1)
    document.add_paragraph("They stand at the sea.")
    document.add_heading("Keepers", 2)
    document.add_paragraph("Ida Lewis kept one at Newport.")
    table = document.add_table(rows=1, cols=2)
    table.rows[0].cells[0].text, table.rows[0].cells[1].text = "Eddystone", "1759"
    document.save(str(path) if isinstance(path, Path) else path)


def write_bomb(path: Path, megabytes: int) -> None:
    """A small .zip that unpacks to a lot."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("word/document.xml", bytes(megabytes << 20))
