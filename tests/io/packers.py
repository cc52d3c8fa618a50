"""Compressors by the ending of a file's name."""

import bz2
import gzip
import lzma
from collections.abc import Callable

import zstandard

PACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".txt": bytes,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".bz2": bz2.compress,
    ".zst": zstandard.ZstdCompressor().compress,
}
