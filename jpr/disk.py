"""Files safe on the disk, JSON objects and locks, by Python's own library alone.

So this serves where models are trained too, and `jpr.files`, with its compressed formats, does not.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jpr.errors import FormatError


def publish_file(part: Path, path: Path) -> None:
    """Give a finished file its name, after it is safe on the disk."""
    _sync(part)
    part.replace(path)


def sync_folder(folder: Path) -> None:
    """Make sure that all of a folder is on the disk before anything points to it."""
    for path in (*folder.rglob("*"), folder):
        _sync(path)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def locked(file: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold a lock, which goes with the process.

    Where another holds it, wait for that one, or raise BlockingIOError.
    """
    with file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield


def cache_folder() -> Path:
    """Return where results that can be computed again are kept."""
    base = os.environ.get("JPR_CACHE") or os.environ.get("XDG_CACHE_HOME")
    return Path(base, "jpr") if base else Path.home() / ".cache" / "jpr"


def read_json(file: Path) -> object:
    """Read a file that holds one JSON value."""
    try:
        value: object = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise FormatError(file, 0, f"cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise FormatError(file, 0, f"is no JSON ({error}); copy it again") from error
    return value


def read_object(file: Path) -> dict[str, object]:
    """Read a file that holds one JSON object."""
    value = read_json(file)
    if not isinstance(value, dict):
        raise FormatError(file, 0, "holds no JSON object; is it the right file?")
    return value
