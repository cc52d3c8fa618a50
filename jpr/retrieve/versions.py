"""A folder of numbered versions, one of them in use; a new one replaces it atomically.

`CURRENT` names the version in use. It stays complete and in use until the next one is published; a
killed writer leaves a folder that the next writer removes.
"""

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from jpr.errors import ConfigError, FormatError
from jpr.io.atomic import explain_write_errors, publish, sync_folder
from jpr.io.locks import Lock, locked

T = TypeVar("T")
_VERSION = re.compile("v[0-9]{1,9}")
UNFINISHED = "encoding-"  # prefix of folders that a killed writer leaves and the next one resumes


@contextmanager
def next_version(folder: Path) -> Iterator[tuple[Path | None, Path]]:
    """Yield the version in use, if any, and an empty folder for the next.

    Afterwards the new version is published and the old one removed; after an error the old one
    stays. Folders named `UNFINISHED`… stay until a version has been published.
    """
    with only_writer(folder) as lock:
        current = _current(folder)
        version = folder / f"v{int(current[1:]) + 1 if current else 1}"
        _remove_versions(folder, keep=current)
        version.mkdir()
        try:
            yield (folder / current if current else None), version
            sync_folder(version)
            lock.check()
            with publish(folder / "CURRENT") as stream:
                stream.write(f"{version.name}\n")
        except BaseException:
            if lock.is_held() and _current(folder) != version.name:
                shutil.rmtree(version, ignore_errors=True)
            raise
        _remove_versions(folder, keep=version.name)
        for path in folder.glob(f"{UNFINISHED}*"):
            shutil.rmtree(path)


def open_current(folder: Path, open_version: Callable[[Path], T]) -> T:
    """Open the version in use; try again if another replaces it meanwhile."""
    for _ in range(5):
        name = _current(folder)
        if name is None:
            break
        try:
            return open_version(folder / name)
        except FormatError:
            if _current(folder) == name:
                raise
    problem = "no index here; build one with: jpr index CORPUS --out DIR"
    if (folder / "lock").exists():
        problem = "the index is unfinished; run the same jpr index command again"
    elif folder.is_file():
        problem = "is a file; an index is a folder made by jpr index"
    raise FormatError(folder, 0, problem)


@contextmanager
def only_writer(folder: Path) -> Iterator[Lock]:
    """Create a folder and hold its lock, which the system releases when the process ends.

    A folder that is new and still empty after an error is removed; one that holds another
    program's files, with names like ours, is an error.
    """
    if folder.is_file():
        raise ConfigError(f"{folder}: is a file; an index needs a folder")
    with explain_write_errors(folder):
        is_new = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        names = [path.name for path in folder.iterdir()]
        alike = [name for name in names if _VERSION.fullmatch(name) or name.startswith(UNFINISHED)]
        # Checked second: a concurrent writer creates its lock before anything else.
        if alike and not any((folder / ours).exists() for ours in ("lock", "CURRENT")):
            raise ConfigError(f"{folder}: not an index, but holds {alike[0]}; choose a new folder")
        with locked(folder / "lock") as lock:
            try:
                yield lock
            except BaseException:
                if is_new and [path.name for path in folder.iterdir()] == ["lock"]:
                    lock.remove_folder()
                raise


def _current(folder: Path) -> str | None:
    try:
        name = (folder / "CURRENT").read_bytes().decode(errors="replace").strip()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise FormatError(folder, 0, f"cannot be read: {error.strerror}") from error
    if not _VERSION.fullmatch(name):
        raise FormatError(folder / "CURRENT", 1, "does not name a version; build the index again")
    return name


def _remove_versions(folder: Path, keep: str | None) -> None:
    for path in folder.iterdir():
        if _VERSION.fullmatch(path.name) and path.name != keep:
            shutil.rmtree(path)
