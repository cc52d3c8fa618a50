"""Passages from any corpus the field uses; `jpr.formats.corpus.split` cuts long ones."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TextIO

from jpr.formats.format import Formats, RecordKind
from jpr.types import Passage

FORMATS = Formats[Passage](__name__, "tsv", "jsonl", "documents", "wikipedia")
KIND = RecordKind("passages", FORMATS, lambda passage: passage.id)


def read_passages(path: str | Path, format: str | None = None) -> Iterator[Passage]:
    """Stream the passages of a file or folder, recognized unless its format is named."""
    return iter(KIND.read(path, format))


def write_passages(passages: Iterable[Passage], stream: TextIO, format: str = "tsv") -> None:
    """Write passages in a format; tsv keeps `source` of the meta, dpr nothing of it."""
    KIND.write(passages, stream, format)
