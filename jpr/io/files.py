"""Text in, whatever it is compressed with; files out, whole or not at all."""

import bz2
import errno
import fcntl
import gzip
import io
import lzma
import os
import shutil
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import IO, Any, BinaryIO, TextIO, cast

import zstandard

from jpr.errors import ConfigError, FormatError
from jpr.io.disk import sha256 as sha256

_CHUNK = 1 << 20
_PIECE = 1 << 12
"""Bytes of zstd that are unpacked at once: they may become 30,000 times as many."""
_LONGEST_LINE, _TIMES = 256 << 20, 64
"""Bytes of a line, and how many times the file's own: beyond both it is no text, but a bomb."""
_DAMAGE = (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile, zstandard.ZstdError)


class Reading:
    """How far the reading of files has come, in bytes as they lie on the disk."""

    def __init__(self) -> None:
        """Begin before the first file."""
        self._before = 0
        self._path: Path | None = None
        self._stream: BinaryIO | None = None

    def open(self, path: Path, stream: BinaryIO) -> None:
        """Take note of a file that is about to be read."""
        if path != self._path:  # a file may be opened twice: to recognise it, and to read it
            self._before, self._path = self.bytes, path
        self._stream = stream

    @property
    def bytes(self) -> int:
        """Bytes read so far, some buffers more or less."""
        if self._path is None or self._stream is None:
            return self._before
        if self._stream.closed:
            return self._before + self._path.stat().st_size
        return self._before + os.lseek(self._stream.fileno(), 0, os.SEEK_CUR)


_reading: ContextVar[Reading | None] = ContextVar("reading", default=None)


@contextmanager
def watch_reading() -> Iterator[Reading]:
    """Yield what tells how far files that are opened meanwhile have been read."""
    token = _reading.set(reading := Reading())
    try:
        yield reading
    finally:
        _reading.reset(token)


def open_binary(path: Path) -> BinaryIO:
    """Open a file for reading; gzip, xz, bzip2 and zstd are known by their first bytes."""
    stream = _open(path)
    if reading := _reading.get():
        reading.open(path, stream)
    return stream


def _open(path: Path) -> BinaryIO:
    try:
        if path.exists() and not path.is_file():
            raise FormatError(path, 0, "is no regular file; it is read twice, so save it first")
        with path.open("rb") as raw:
            magic = raw.read(6)
        if magic.startswith(b"\x1f\x8b"):
            return cast(BinaryIO, gzip.GzipFile(path))
        if magic == b"\xfd7zXZ\x00":
            return cast(BinaryIO, lzma.LZMAFile(path))
        if magic.startswith(b"BZh"):
            return cast(BinaryIO, bz2.BZ2File(path))
        plain = path.open("rb")
    except OSError as error:
        raise FormatError(path, 0, f"cannot be opened: {error.strerror}") from error
    if magic.startswith(b"\x28\xb5\x2f\xfd"):
        return cast(BinaryIO, io.BufferedReader(_ZstdFile(plain), _CHUNK))
    return plain


class _ZstdFile(io.RawIOBase):
    """Reads zstd frames, and unlike the library's own reader notices one that is cut short."""

    def __init__(self, packed: BinaryIO) -> None:
        self._packed = packed
        self._frame = zstandard.ZstdDecompressor().decompressobj()
        self._input = self._output = b""

    def readable(self) -> bool:
        """Tell that this is for reading."""
        return True

    def fileno(self) -> int:
        """Return the descriptor of the file underneath."""
        return self._packed.fileno()

    def readinto(self, buffer: Any, /) -> int:  # noqa: ANN401  typeshed has no public name for it
        """Fill the buffer with as much as is at hand."""
        while not self._output and (self._input or (more := self._packed.read(_PIECE))):
            if self._frame.eof:
                self._frame = zstandard.ZstdDecompressor().decompressobj()
            self._output = self._frame.decompress(self._input or more)
            self._input = self._frame.unused_data
        if not self._output and not self._frame.eof:
            raise EOFError("the last frame is not complete")
        size = min(len(buffer), len(self._output))
        buffer[:size], self._output = self._output[:size], self._output[size:]
        return size

    def close(self) -> None:
        """Close the file underneath too."""
        self._packed.close()
        super().close()


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, text without its end) of a UTF-8 file, a megabyte at a time."""
    number = 0
    for block in _blocks(path):
        try:
            text = block.decode("utf-8")
        except UnicodeDecodeError as error:
            line = number + 1 + block.count(b"\n", 0, error.start)
            bad = block[error.start]
            raise FormatError(
                path, line, f"byte 0x{bad:02x} is not UTF-8; convert the file, e.g. with iconv"
            ) from error
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
    with open_binary(path) as stream:
        most = max(_LONGEST_LINE, _TIMES * path.stat().st_size)
        while chunk := _read_chunk(stream, path):
            end = chunk.rfind(b"\n") + 1
            if not end:
                rest.append(chunk)
                if len(rest) * _CHUNK > most:
                    raise FormatError(path, 0, f"a line is longer than {most >> 20} MB: no text")
                continue
            yield b"".join((*rest, chunk[:end]))
            rest = [chunk[end:]]
    if any(rest):
        yield b"".join(rest)


def _read_chunk(stream: IO[bytes], path: Path) -> bytes:
    try:
        return stream.read(_CHUNK)
    except _DAMAGE as error:
        raise FormatError(
            path, 0, f"compressed data is damaged or cut short ({error}); fetch the file again"
        ) from error
    except OSError as error:
        raise FormatError(path, 0, f"cannot be read: {error.strerror or error}") from error


@contextmanager
def publish(path: Path) -> Iterator[TextIO]:
    """Write a text file that appears under its name complete or not at all.

    The text goes to a temporary file beside it, is flushed to the disk and renamed. It is
    compressed if the name ends in .gz, .xz, .bz2 or .zst.
    """
    with publish_binary(path) as binary, _compressed(binary, path.suffix) as packed:
        text = io.TextIOWrapper(packed, encoding="utf-8", newline="\n")
        yield text
        text.flush()
        text.detach()


def _compressed(stream: BinaryIO, suffix: str) -> AbstractContextManager[BinaryIO]:
    if suffix == ".gz":  # without name and time: the same text gives the same file
        return cast(
            AbstractContextManager[BinaryIO], gzip.GzipFile("", "wb", fileobj=stream, mtime=0)
        )
    if suffix == ".xz":
        return cast(AbstractContextManager[BinaryIO], lzma.LZMAFile(stream, "wb", preset=3))
    if suffix == ".bz2":
        return cast(AbstractContextManager[BinaryIO], bz2.BZ2File(stream, "wb"))
    if suffix == ".zst":
        compressor = zstandard.ZstdCompressor(level=10, write_checksum=True)
        writer = compressor.stream_writer(stream, closefd=False)
        return cast(AbstractContextManager[BinaryIO], writer)
    return nullcontext(stream)


@contextmanager
def publish_binary(path: Path) -> Iterator[BinaryIO]:
    """Write a binary file that appears under its name complete or not at all.

    A symbolic link stays, and what it leads to is written. A pipe or device is written directly.
    What a killed process left in the making, `.NAME.new`, the next one writes over.
    """
    with _explained(path):
        if _is_stream(path):
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND), "wb") as stream:
                yield stream
            return
        target = Path(os.path.realpath(path))
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.parent / f".{target.name[:100]}.new"
        with os.fdopen(_alone(temporary), "wb") as stream:
            try:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
                temporary.chmod(0o666 & ~_umask())
                temporary.replace(target)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise


def _alone(path: Path) -> int:
    """Open a file, empty, for one writer at a time; wait for another that is at it."""
    while True:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        with suppress(OSError):  # some network disks have no locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), path.stat()):
                os.ftruncate(handle, 0)
                return handle
        os.close(handle)  # the other has given it its name meanwhile, or removed it


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn what the system refuses into one sentence."""
    try:
        yield
    except UnicodeEncodeError as error:
        half = error.object[error.start]
        raise ConfigError(
            f"{path}: cannot be written: {half!a} is half a character; a JSON format can hold it"
        ) from error
    except BrokenPipeError:  # the reader of a pipe has seen enough
        raise
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror or error}") from error


def _is_stream(path: Path) -> bool:
    """Tell whether a path is written as it is: a pipe, a device, an open file such as stdout."""
    if path.is_dir():
        return False
    opened = path.parent in (Path("/dev"), Path("/dev/fd"), Path("/proc/self/fd"))
    return path.exists() and (opened or not path.is_file())


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def link(source: Path, target: Path) -> None:
    """Give a file that nobody will change a second name, or copy it where that cannot be done."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
