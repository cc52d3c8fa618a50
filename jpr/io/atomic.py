"""Atomic writes: a file or folder appears under its name complete, or not at all.

Output goes to a temporary file beside the target, `.NAME.new`, is flushed to the disk and renamed.
A lock keeps other processes away. What a killed one leaves, the next writer of the target replaces.
"""

import bz2
import errno
import gzip
import io
import lzma
import os
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from jpr.errors import ConfigError, FormatError
from jpr.io.locks import locked


@contextmanager
def explain_write_errors(
    path: Path | str, library_error: type[Exception] = OSError, remedy: str = ""
) -> Iterator[None]:
    """Turn an OSError, or another error of a library, into a ConfigError that names the path."""
    try:
        yield
    except UnicodeEncodeError as error:
        half = error.object[error.start]
        problem = f"{half!a} is half a character; write a JSON format, which can hold it"
        raise ConfigError(f"{path}: cannot be written: {problem}") from error
    except BrokenPipeError:  # the reader of a pipe has seen enough
        raise
    except BlockingIOError as error:
        raise ConfigError(f"{path}: another process is writing it; wait for it") from error
    except (OSError, library_error) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise ConfigError(f"{path}: cannot be written: {reason or error}{remedy}") from error


@contextmanager
def explain_read_errors(path: Path) -> Iterator[None]:
    """Turn an OSError into a FormatError that names the path."""
    try:
        yield
    except OSError as error:
        raise FormatError(path, 0, f"cannot be read: {error.strerror or error}") from error


@contextmanager
def explain_damage(
    path: Path, problem: str, remedy: str, *errors: type[Exception]
) -> Iterator[None]:
    """Turn these errors of a library, and panics of Rust, into a FormatError."""
    try:
        yield
    except BaseException as error:
        is_panic = type(error).__name__ == "PanicException"  # no Exception, and of no public type
        if isinstance(error, errors) or is_panic:
            raise FormatError(path, 0, f"{problem} ({error}); {remedy}") from error
        raise


@contextmanager
def publish(path: Path) -> Iterator[TextIO]:
    """Write a text file, compressed if its name ends in .gz, .xz, .bz2 or .zst."""
    with publish_binary(path) as binary, _compressed(binary, path.suffix) as packed:
        text = io.TextIOWrapper(packed, encoding="utf-8", newline="\n")
        yield text
        text.flush()
        text.detach()


def _compressed(stream: BinaryIO, suffix: str) -> AbstractContextManager[Any]:
    if suffix == ".gz":  # without name and time: the same text gives the same file
        return gzip.GzipFile("", "wb", fileobj=stream, mtime=0)
    if suffix == ".xz":
        return lzma.LZMAFile(stream, "wb", preset=3)
    if suffix == ".bz2":
        return bz2.BZ2File(stream, "wb")
    if suffix == ".zst":
        import zstandard

        compressor = zstandard.ZstdCompressor(level=10, write_checksum=True)
        return compressor.stream_writer(stream, closefd=False)
    return nullcontext(stream)


@contextmanager
def publish_binary(path: Path) -> Iterator[BinaryIO]:
    """Write a binary file; a pipe is written directly."""
    is_open = path.parent in (Path("/dev"), Path("/dev/fd"), Path("/proc/self/fd"))  # as stdout
    with explain_write_errors(path):
        if path.exists() and not path.is_dir() and (is_open or not path.is_file()):
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND), "wb") as stream:
                yield stream
            return
        with publish_path(path) as temporary, temporary.open("wb") as stream:
            yield stream


@contextmanager
def publish_path(path: Path) -> Iterator[Path]:
    """Yield the name under which to write a file; the target of a symbolic link is replaced."""
    with explain_write_errors(path):
        target = Path(os.path.realpath(path))
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        temporary = temporary_path(target)
        # Beside it, because some libraries do not write into a file but replace it.
        with locked(Path(f"{temporary}.lock"), wait=True, optional=True) as lock:
            try:
                temporary.unlink(missing_ok=True)
                yield temporary
                _flush(temporary)
                lock.check()
                _rename(temporary, target)
            finally:
                if lock.is_held():
                    temporary.unlink(missing_ok=True)
                lock.remove()


@contextmanager
def publish_folder(folder: Path, *, replace: bool = False) -> Iterator[Path]:
    """Make a new folder; yield the one to fill, which is renamed at the end."""
    if not replace and (folder.exists() or folder.is_symlink()):
        raise ConfigError(f"{folder}: exists already; name a new folder, or remove it first")
    temporary = temporary_path(folder)
    made, old = temporary / "made", temporary / "old"
    with explain_write_errors(folder), locked(temporary / "lock") as lock:
        try:
            if old.exists() and not folder.exists():  # killed between the two renames below
                _rename(old, folder)
            for left in (made, old):
                shutil.rmtree(left, ignore_errors=True)
            made.mkdir()
            yield made
            sync_folder(made)
            lock.check()
            if replace and folder.exists():
                _rename(folder, old)
            _rename(made, folder)
        finally:
            lock.remove_folder()


def temporary_path(path: Path) -> Path:
    """Return where a file or folder is made before it gets its name."""
    return path.with_name(f".{path.name[:100]}.new")


def copy_file(source: Path, path: Path) -> None:
    """Copy a file, atomically."""
    with source.open("rb") as stream, publish_binary(path) as out:
        shutil.copyfileobj(stream, out)


def link(source: Path, target: Path) -> None:
    """Give an immutable file a second name, or copy it where the disk cannot link."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def sync_folder(folder: Path) -> None:
    """Flush all of a folder, and its name, to the disk, before anything points to it."""
    for path in (*folder.rglob("*"), folder, folder.parent):
        _flush(path)


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _rename(source: Path, target: Path) -> None:
    """Rename, and flush the folder: otherwise a power cut could undo it."""
    source.replace(target)
    try:
        _flush(target.parent)
    except OSError as error:  # not readable, or of a disk that cannot flush folders
        if error.errno not in (errno.EACCES, errno.EINVAL, errno.EOPNOTSUPP):
            raise
