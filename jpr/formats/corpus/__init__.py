"""Passages from any corpus the field uses; `jpr.formats.corpus.split` cuts long ones."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TextIO

from jpr.formats.format import Formats, read_records, write_records
from jpr.types import Passage

FORMATS = Formats[Passage](__name__, "tsv", "jsonl", "folder", "wikipedia")


def read_passages(path: str | Path, format: str | None = None) -> Iterator[Passage]:
    """Stream the passages of a file or folder, recognized unless its format is named."""
    return read_records(Path(path), FORMATS, format, key=lambda passage: passage.id)


def write_passages(passages: Iterable[Passage], stream: TextIO, format: str = "tsv") -> None:
    """Write passages in a format; tsv keeps `source` of the meta, dpr nothing of it."""
    write_records(passages, stream, FORMATS, format)
