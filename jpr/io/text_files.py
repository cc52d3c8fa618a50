"""Lines of text files, plain or compressed, and how far they have been read."""

import bz2
import gzip
import io
import lzma
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, BinaryIO

from jpr.errors import FormatError
from jpr.io.atomic import explain_read_errors

_CHUNK = 1 << 20
_ZSTD_CHUNK = 1 << 12  # bytes to decompress at once: they may become 30,000 times as many
_LONGEST_LINE, _TIMES = 256 << 20, 64  # bytes, or times the file's size; above both: not text
_DAMAGE = (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile)


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


def _open(path: Path) -> BinaryIO:
    """Open a file for reading; gzip, xz, bzip2 and zstd are known by their first bytes."""
    with explain_read_errors(path):
        if path.exists() and not path.is_file():
            raise FormatError(path, 0, "is not a regular file; it is read twice, so save it first")
        with path.open("rb") as raw:
            first = raw.read(6)
        opener = next((open for magic, open in _OPENERS.items() if first.startswith(magic)), None)
        stream: BinaryIO = opener(path) if opener else path.open("rb")
    return stream


class _ZstdFile(io.RawIOBase):
    """Reads zstd frames; unlike the library's own reader it notices one that is cut short."""

    def __init__(self, path: Path) -> None:
        import zstandard

        self._new_frame = zstandard.ZstdDecompressor().decompressobj
        self._error = zstandard.ZstdError
        self._compressed = path.open("rb")
        self._frame = self._new_frame()
        self._input = self._output = b""

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._compressed.fileno()

    def readinto(self, buffer: Any, /) -> int:  # noqa: ANN401  typeshed has no public name for it
        while not self._output and (self._input or (more := self._compressed.read(_ZSTD_CHUNK))):
            if self._frame.eof:
                self._frame = self._new_frame()
            try:
                self._output = self._frame.decompress(self._input or more)
            except self._error as error:
                raise EOFError(str(error)) from error
            self._input = self._frame.unused_data
        if not self._output and not self._frame.eof:
            raise EOFError("the last frame is not complete")
        size = min(len(buffer), len(self._output))
        buffer[:size], self._output = self._output[:size], self._output[size:]
        return size

    def close(self) -> None:
        self._compressed.close()
        super().close()


_OPENERS: dict[bytes, Callable[[Path], Any]] = {
    b"\x1f\x8b": gzip.GzipFile,
    b"\xfd7zXZ\x00": lzma.LZMAFile,
    b"BZh": bz2.BZ2File,
    b"\x28\xb5\x2f\xfd": lambda path: io.BufferedReader(_ZstdFile(path), _CHUNK),
}


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
    with _open(path) as stream:
        limit = max(_LONGEST_LINE, _TIMES * path.stat().st_size)
        while chunk := _read_chunk(stream, path):
            end = chunk.rfind(b"\n") + 1
            if not end:
                rest.append(chunk)
                if len(rest) * _CHUNK > limit:
                    raise FormatError(path, 0, f"a line is longer than {limit >> 20} MB: not text")
                continue
            yield b"".join((*rest, chunk[:end]))
            rest = [chunk[end:]]
    if any(rest):
        yield b"".join(rest)


def _read_chunk(stream: BinaryIO, path: Path) -> bytes:
    with explain_read_errors(path):
        try:
            chunk = stream.read(_CHUNK)
        except _DAMAGE as error:
            problem = f"compressed data is damaged or cut short ({error}); fetch the file again"
            raise FormatError(path, 0, problem) from error
    if (positions := _positions.get()) is not None:
        positions[path] = os.lseek(stream.fileno(), 0, os.SEEK_CUR)
    return chunk
