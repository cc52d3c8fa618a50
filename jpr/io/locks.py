"""The lock between processes, folders that it keeps alive or private, and the cache folder."""

import errno
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

DOCUMENTS = "documents"
"""The folder of the cache that holds the indexes of folders of documents."""
_LOCK = "lock"
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)  # of some network disks


@dataclass(frozen=True, slots=True)
class Lock:
    """A lock that this process holds, unless somebody removes or replaces its file."""

    file: Path
    _handle: int

    def is_held(self) -> bool:
        """Return whether the locked file is still the one with its name."""
        try:
            return os.path.samestat(os.fstat(self._handle), self.file.lstat())
        except FileNotFoundError:
            return False

    def check(self) -> None:
        """Raise BlockingIOError if the lock is lost; to be called before anything is published."""
        if not self.is_held():
            raise BlockingIOError(errno.EAGAIN, "the lock file was removed", str(self.file))

    def remove(self) -> None:
        """Remove the file, if it is still held; afterwards another process may have the lock."""
        if self.is_held():
            self.file.unlink()

    def remove_folder(self) -> None:
        """Remove the folder of the lock as far as possible, and the lock last of all."""
        folder = self.file.parent
        for path in folder.iterdir() if self.is_held() else ():
            if path != self.file:
                shutil.rmtree(path, ignore_errors=True)
                with suppress(OSError):
                    path.unlink(missing_ok=True)
        self.remove()
        with suppress(OSError):  # another process has a new lock in it
            folder.rmdir()


@contextmanager
def locked(file: Path, *, wait: bool = False, optional: bool = False) -> Iterator[Lock]:
    """Hold a lock that ends with the process; raise BlockingIOError if another has it, or wait.

    The file and its folder are created. An optional lock is ignored where the disk has no locks.
    """
    while True:
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        except FileNotFoundError:  # its last holder has just removed the folder
            continue
        try:
            _lock(handle, wait, optional)
            lock = Lock(file, handle)
            if lock.is_held():  # or its last holder has removed or renamed it meanwhile
                yield lock
                return
        finally:
            os.close(handle)


def _lock(handle: int, wait: bool, optional: bool) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError as error:
        if not optional or error.errno not in _NO_LOCKS:
            raise


@contextmanager
def private_folder(folder: Path) -> Iterator[None]:
    """Create a folder that only this user can read, and wait for its lock.

    Whatever the umask and the programs that write there: files get the mode 0600, folders 0700.
    """
    for parent in reversed(folder.absolute().parents):
        parent.mkdir(exist_ok=True, mode=0o700)
    _close_to_others(folder.parent)
    with locked(folder / _LOCK, wait=True) as lock:
        _close_to_others(folder)  # before anything is in it
        os.utime(lock.file)  # the time of the last use
        try:
            yield
        finally:
            for path in folder.rglob("*"):
                _close_to_others(path)


def _close_to_others(path: Path) -> None:
    with suppress(PermissionError):  # a folder that somebody prepared for several users
        path.chmod(0o700 if path.is_dir() else 0o600)


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
