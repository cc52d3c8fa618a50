"""The indexes of folders of documents in the cache: which there are, and removing old ones."""

import ast
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from jpr.errors import FormatError
from jpr.io.atomic import explain_write_errors
from jpr.io.json_files import read_object
from jpr.io.locks import locked

_DAY = 24 * 60 * 60


@dataclass(frozen=True, slots=True)
class CachedIndex:
    """An index in the cache."""

    place: Path
    folder: Path | None  # of the documents; None if no index was finished, or it is damaged
    size: int  # bytes
    used: float  # seconds since 1970


def cached_indexes(home: Path) -> list[CachedIndex]:
    """Return the indexes that `index_documents` made in a folder, the last used one last."""
    found = []
    for lock in home.glob("*/lock"):
        with suppress(FileNotFoundError):  # another process has just removed it
            found.append(_describe(lock))
    return sorted(found, key=lambda one: (one.used, one.place))


def prune(home: Path, days: int) -> list[CachedIndex]:
    """Remove indexes of missing folders, and those not used for a number of days; return them.

    Those that another process is checking or changing stay.
    """
    removed = []
    for file in sorted(home.glob("*/lock")):
        with explain_write_errors(file.parent), suppress(BlockingIOError), locked(file) as lock:
            one = _describe(file)
            if one.used <= time.time() - days * _DAY or _is_gone(one.folder):
                lock.remove_folder()
                removed.append(one)
    return removed


def _describe(lock: Path) -> CachedIndex:
    place, folder, size = lock.parent, None, 0
    with suppress(FormatError, KeyError, SyntaxError, TypeError, ValueError):
        folder = Path(ast.literal_eval(str(read_object(place / "files.json")["folder"])))
    for inner, _, names in os.walk(place):
        for name in names:
            with suppress(FileNotFoundError):  # another process is changing the index
                size += Path(inner, name).lstat().st_size
    return CachedIndex(place, folder, size, lock.stat().st_mtime)


def _is_gone(folder: Path | None) -> bool:
    """Return whether a folder is known not to exist: one that cannot be read may."""
    try:
        return folder is not None and not folder.is_dir()
    except PermissionError:
        return False
