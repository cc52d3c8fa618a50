"""Locks between processes, temporary folders that a lock keeps alive, and the cache folder."""

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_LOCK = "lock"


@contextmanager
def locked(file: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold a lock that ends with the process; raise BlockingIOError if another has it, or wait."""
    with file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield


@contextmanager
def temporary_folder(prefix: str) -> Iterator[Path]:
    """Make a folder and remove it at the end; one that a killed process left is removed first."""
    home = Path(tempfile.gettempdir())
    for old in home.glob(f"{prefix}*"):
        _remove_unlocked(old)
    hidden = Path(tempfile.mkdtemp(prefix=f".{prefix}"))
    folder = home / hidden.name.removeprefix(".")
    try:
        with locked(hidden / _LOCK):
            hidden.rename(folder)  # only a locked folder gets a name that others remove
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _remove_unlocked(folder: Path) -> None:
    """Remove a folder that no process locks, if it belongs to this user: others may plant links."""
    with suppress(OSError):
        ours = folder.lstat().st_uid == os.getuid() and not folder.is_symlink()
        if ours and stat.S_ISREG((folder / _LOCK).lstat().st_mode):
            with locked(folder / _LOCK):
                shutil.rmtree(folder, ignore_errors=True)


def cache_folder() -> Path:
    """Return the folder for results that can be computed again."""
    base = os.environ.get("JPR_CACHE") or os.environ.get("XDG_CACHE_HOME")
    return Path(base, "jpr") if base else Path.home() / ".cache" / "jpr"
