"""The layout of the faiss files that `dense.py` writes, which are compared with it before use.

faiss trusts a file: it reads beyond the end of a short one, and allocates the lengths in it.
"""

from collections.abc import Iterator
from pathlib import Path
from struct import pack
from typing import BinaryIO

import numpy as np

Piece = bytes | int
"""Bytes that are known, or a number of bytes that may be anything."""
_MOST = 1 << 31  # of each number; their products have 64 bits


def has_layout(file: Path, dimension: int, rows: int, lists: int) -> bool:
    """Return whether a file is an SQ8 index of this shape; without lists, a flat one."""
    if not (0 < dimension < _MOST and 0 <= rows < _MOST and 0 <= lists < _MOST):
        return False
    pieces = _lists(dimension, rows, lists) if lists else _flat(dimension, rows)
    with file.open("rb") as stream:
        if not all(_follows(stream, piece) for piece in pieces):
            return False
        if lists and not _are_sizes(stream, rows, lists):
            return False
        rest = file.stat().st_size - stream.seek(0, 1)
        return rest == rows * (dimension + (8 if lists else 0))


def _flat(dimension: int, rows: int) -> Iterator[Piece]:
    yield from _head(b"IxSQ", dimension, rows)
    yield from _scalar_quantizer(dimension)
    yield pack("<Q", rows * dimension)


def _lists(dimension: int, rows: int, lists: int) -> Iterator[Piece]:
    yield from _head(b"IwSq", dimension, rows)
    yield pack("<Q", lists)
    yield 8  # lists to probe: a search gives its own number
    yield from _head(b"IxFI", dimension, lists)
    yield pack("<Q", lists * dimension)
    yield 4 * lists * dimension  # centroids
    yield b"\0" + pack("<Q", 0)  # no map from ids to lists
    yield from _scalar_quantizer(dimension)
    yield pack("<Q", dimension)
    yield 1  # whether codes are relative to centroids
    yield b"ilar" + pack("<QQ", lists, dimension)


def _head(kind: bytes, dimension: int, rows: int) -> Iterator[Piece]:
    yield kind + pack("<iq", dimension, rows)
    yield 16
    yield b"\1" + pack("<i", 0)  # trained; inner product


def _scalar_quantizer(dimension: int) -> Iterator[Piece]:
    yield pack("<i", 0)  # 8 bits
    yield 8
    yield pack("<QQQ", dimension, dimension, 2 * dimension)
    yield 8 * dimension  # ranges


def _follows(stream: BinaryIO, piece: Piece) -> bool:
    if isinstance(piece, int):
        stream.seek(piece, 1)
        return True
    return stream.read(len(piece)) == piece


def _are_sizes(stream: BinaryIO, rows: int, lists: int) -> bool:
    """Read the lengths of all lists, or pairs (list, length) of those that are not empty."""
    kind, count = stream.read(4), int.from_bytes(stream.read(8), "little")
    if (kind, count) != (b"full", lists) and (kind != b"sprs" or count % 2 or count > 2 * lists):
        return False
    content = stream.read(8 * count)
    if len(content) < 8 * count:
        return False
    found = np.frombuffer(content, np.uint64)
    places, sizes = (found[:0], found) if kind == b"full" else (found[::2], found[1::2])
    return bool((places < lists).all() and (sizes <= rows).all() and sizes.sum() == rows)
