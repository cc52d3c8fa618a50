"""Lines of text files, plain or compressed, and how far they have been read."""

import bz2
import lzma
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from jpr.errors import FormatError
from jpr.io.atomic import explain_read_errors

_CHUNK = 1 << 20
_PIECE = 1 << 12  # bytes to decompress at once: they may become 30,000 times as many
_LONGEST_LINE = 16 << 20  # bytes; its columns may take sixteen times as much
_LONGEST_JSON, _TIMES = 256 << 20, 64  # of JSON: bytes, or times the file's size

_Error = type[Exception]
_positions: ContextVar[dict[Path, int] | None] = ContextVar("read_positions", default=None)


@contextmanager
def watch_reading() -> Iterator[dict[Path, int]]:
    """Yield the bytes, on the disk, read so far of each file that is opened inside the block."""
    positions: dict[Path, int] = {}
    token = _positions.set(positions)
    try:
        yield positions
    finally:
        _positions.reset(token)


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, text without its end) of a UTF-8 file, a megabyte at a time."""
    number = 0
    for block in _blocks(path):
        try:
            text = block.decode("utf-8")
        except UnicodeDecodeError as error:
            line = number + 1 + block.count(b"\n", 0, error.start)
            problem = f"byte 0x{block[error.start]:02x} is not UTF-8; convert it, e.g. with iconv"
            raise FormatError(path, line, problem) from error
        if number == 0:
            text = text.removeprefix("\ufeff")
        lines = text.split("\n")  # not splitlines(): U+2028 and U+0085 occur inside passages
        if not lines[-1]:
            lines.pop()
        for line_text in lines:
            number += 1
            yield number, line_text.removesuffix("\r")


def _blocks(path: Path) -> Iterator[bytes]:
    """Yield the file's bytes in pieces that end with a whole line."""
    rest: list[bytes] = []
    size = limit = 0
    for chunk in _chunks(path):
        limit = limit or _longest_line(path, chunk)
        end = chunk.rfind(b"\n") + 1
        if end:
            yield b"".join((*rest, chunk[:end]))
            rest, size = [], 0
        rest.append(chunk[end:])
        size += len(chunk) - end
        if size > limit:
            raise FormatError(path, 0, f"a line is longer than {limit >> 20} MB: not text")
    if size:
        yield b"".join(rest)


def _longest_line(path: Path, first: bytes) -> int:
    is_json = first.removeprefix(b"\xef\xbb\xbf").lstrip().startswith((b"{", b"["))
    return max(_LONGEST_JSON, _TIMES * path.stat().st_size) if is_json else _LONGEST_LINE


def _chunks(path: Path) -> Iterator[bytes]:
    """Yield the file's bytes, at most a megabyte at a time, decompressed if they are compressed."""
    with explain_read_errors(path):
        if path.exists() and not path.is_file():
            raise FormatError(path, 0, "is not a regular file; it is read twice, so save it first")
        with path.open("rb") as stream:
            first = stream.read(6)
            stream.seek(0)
            known = (load for magic, load in _COMPRESSIONS.items() if first.startswith(magic))
            if load := next(known, None):
                yield from _decompressed(_pieces(stream, path, _PIECE), path, *load())
            else:
                yield from _pieces(stream, path, _CHUNK)


def _pieces(stream: BinaryIO, path: Path, size: int) -> Iterator[bytes]:
    while piece := stream.read(size):
        if (positions := _positions.get()) is not None:
            positions[path] = os.lseek(stream.fileno(), 0, os.SEEK_CUR)
        yield piece


def _decompressed(
    pieces: Iterable[bytes], path: Path, new_frame: Callable[[], Any], library_error: _Error
) -> Iterator[bytes]:
    frame = new_frame()
    try:
        for piece in pieces:
            rest = piece
            while rest:
                if frame.eof and not (rest := rest.lstrip(b"\0")):  # zeros may follow a frame
                    break
                frame = new_frame() if frame.eof else frame
                text = frame.decompress(rest)
                yield from (text[at : at + _CHUNK] for at in range(0, len(text), _CHUNK))
                rest = frame.unused_data
        if not frame.eof:
            raise EOFError("the last frame is not complete")
    except (EOFError, library_error) as error:
        problem = f"compressed data is damaged or cut short ({error}); fetch the file again"
        raise FormatError(path, 0, problem) from error


def _zstd() -> tuple[Callable[[], Any], _Error]:
    import zstandard

    return zstandard.ZstdDecompressor().decompressobj, zstandard.ZstdError


_COMPRESSIONS: dict[bytes, Callable[[], tuple[Callable[[], Any], _Error]]] = {
    b"\x1f\x8b": lambda: (partial(zlib.decompressobj, wbits=31), zlib.error),
    b"\xfd7zXZ\x00": lambda: (lzma.LZMADecompressor, lzma.LZMAError),
    b"BZh": lambda: (bz2.BZ2Decompressor, OSError),
    b"\x28\xb5\x2f\xfd": _zstd,
}
"""How a compressed file begins; what decompresses one of its frames, and the error it raises."""
