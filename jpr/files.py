"""Text in, whatever it is compressed with; files out, whole or not at all."""

import bz2
import gzip
import hashlib
import io
import json
import lzma
import os
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO, TextIO, cast

import zstandard

from jpr.errors import ConfigError, FormatError

_CHUNK = 1 << 20
_DAMAGE = (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile, zstandard.ZstdError)


def open_binary(path: Path) -> BinaryIO:
    """Open a file for reading; gzip, xz, bzip2 and zstd are known by their first bytes."""
    try:
        raw = path.open("rb")
    except OSError as error:
        raise FormatError(path, 0, f"cannot be opened: {error.strerror}") from error
    magic = raw.read(6)
    raw.seek(0)
    if magic.startswith(b"\x1f\x8b"):
        return cast(BinaryIO, gzip.GzipFile(fileobj=raw))
    if magic == b"\xfd7zXZ\x00":
        return cast(BinaryIO, lzma.LZMAFile(raw))
    if magic.startswith(b"BZh"):
        return cast(BinaryIO, bz2.BZ2File(raw))
    if magic.startswith(b"\x28\xb5\x2f\xfd"):
        reader = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True)
        return cast(BinaryIO, reader)
    return raw


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
        while chunk := _read_chunk(stream, path):
            end = chunk.rfind(b"\n") + 1
            if not end:
                rest.append(chunk)
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


def read_json(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield (line where it starts, value) for JSON lines, a JSON array's items, or one document.

    JSON lines and arrays are streamed: memory holds one value at a time.
    """
    lines = read_lines(path)
    for number, line in lines:
        if not line.strip():
            continue
        if line.lstrip().startswith("["):
            yield from _array_items(path, number, line, lines)
            return
        try:
            yield number, json.loads(line)
        except json.JSONDecodeError as error:
            if number > 1 or not _unfinished(error, line):
                raise _bad_json(path, number, error) from error
            yield number, _document(path, number, line, lines)
            return


def _unfinished(error: json.JSONDecodeError, text: str) -> bool:
    """Tell whether JSON broke off only because the text did: there may be more below it."""
    return error.msg.startswith("Unterminated string") or error.pos >= len(text.rstrip()) - 10


def _bad_json(path: Path, line: int, error: json.JSONDecodeError) -> FormatError:
    return FormatError(path, line, f"not valid JSON: {error.msg} at column {error.colno}")


def _document(path: Path, first: int, line: str, lines: Iterator[tuple[int, str]]) -> object:
    """Read the rest of the file as one JSON document that began on `line`."""
    text = "\n".join([line, *(more for _, more in lines)])
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise _bad_json(path, first + error.lineno - 1, error) from error


def _array_items(
    path: Path, first: int, line: str, lines: Iterator[tuple[int, str]]
) -> Iterator[tuple[int, Any]]:
    """Yield the items of a JSON array that may span any number of lines.

    The text at hand grows by doubling when an item does not fit, so the work stays linear.
    """
    decode = json.JSONDecoder().raw_decode
    text, at, number = line, line.index("[") + 1, first
    while True:
        skipped = at
        at = _skip(text, at)
        number += text.count("\n", skipped, at)
        if text.startswith("]", at):
            return
        try:
            item, end = decode(text, at)
        except json.JSONDecodeError as error:
            more = _more(lines, max(1 << 16, len(text) - at)) if _unfinished(error, text) else ""
            if not more:
                raise _bad_json(path, number + error.lineno - 1, error) from error
            text, at = text[at:] + "\n" + more, 0
            continue
        yield number, item
        number += text.count("\n", at, end)
        at = end


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n,":
        at += 1
    return at


def _more(lines: Iterator[tuple[int, str]], size: int) -> str:
    """Take lines until they hold `size` characters."""
    taken: list[str] = []
    for _, line in lines:
        taken.append(line)
        size -= len(line) + 1
        if size <= 0:
            break
    return "\n".join(taken)


@contextmanager
def publish(path: Path) -> Iterator[TextIO]:
    """Write a text file that appears under its name complete or not at all.

    The text goes to a temporary file beside it, is flushed to the disk and renamed.
    """
    with publish_binary(path) as binary:
        text = io.TextIOWrapper(binary, encoding="utf-8", newline="\n", write_through=False)
        yield text
        text.flush()
        text.detach()


@contextmanager
def publish_binary(path: Path) -> Iterator[BinaryIO]:
    """Write a binary file that appears under its name complete or not at all."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}") from error
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file's bytes as they lie on the disk."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
