"""A folder of numbered versions, of which one is in use; a new one takes its place in one step.

`CURRENT` names the version in use. Whatever happens while another is being made, that one stays
whole and in use; a killed writer leaves a folder that the next one removes.
"""

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from jpr.errors import ConfigError, FormatError
from jpr.io.atomic import explain_write_errors, publish, sync_folder
from jpr.io.locks import locked

T = TypeVar("T")
_VERSION = re.compile("v[0-9]{1,9}")
KEPT = "encoding-"
"""How the names of folders begin that a killed writer leaves for the next to go on with."""
_ATTEMPTS = 5


@contextmanager
def next_version(folder: Path) -> Iterator[tuple[Path | None, Path]]:
    """Yield the version in use, if there is one, and an empty folder for the next.

    What is in it then is published, and the old version removed; an error leaves the old in use.
    Folders named `KEPT`… stay until a version has been published.
    """
    with only_writer(folder):
        current = _current(folder)
        version = folder / f"v{int(current[1:]) + 1 if current else 1}"
        _clean(folder, keep=current)
        version.mkdir()
        try:
            yield (folder / current if current else None), version
            sync_folder(version)
        except BaseException:
            shutil.rmtree(version, ignore_errors=True)
            raise
        with publish(folder / "CURRENT") as stream:
            stream.write(f"{version.name}\n")
        _clean(folder, keep=version.name)
        for path in folder.glob(f"{KEPT}*"):
            shutil.rmtree(path)


def is_built(folder: Path) -> bool:
    """Tell whether a folder holds a version that is in use."""
    return _current(folder) is not None


def open_current(folder: Path, open_version: Callable[[Path], T]) -> T:
    """Open the version in use; once more where another takes its place meanwhile."""
    for _ in range(_ATTEMPTS):
        name = _current(folder)
        if name is None:
            break
        try:
            return open_version(folder / name)
        except FormatError:
            if _current(folder) == name:
                raise
    raise FormatError(folder, 0, "holds no index; make one with: jpr index CORPUS --out DIR")


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; it goes with the process, however that ends."""
    with explain_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        _refuse_others(folder)
        with locked(folder / "lock"):
            yield


def _refuse_others(folder: Path) -> None:
    """Keep out of a folder where something else is called like a version of ours."""
    names = [path.name for path in folder.iterdir()]
    alike = [name for name in names if _VERSION.fullmatch(name) or name.startswith(KEPT)]
    # Looked for afterwards: a writer that came meanwhile made its lock before anything else.
    if alike and not any((folder / ours).exists() for ours in ("lock", "CURRENT")):
        raise ConfigError(f"{folder}: holds {alike[0]}, of something else; name a new folder")


def _current(folder: Path) -> str | None:
    try:
        name = (folder / "CURRENT").read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FormatError(folder, 0, f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        name = ""
    if not _VERSION.fullmatch(name):
        raise FormatError(folder / "CURRENT", 1, "names no version; build the index again")
    return name


def _clean(folder: Path, keep: str | None) -> None:
    """Remove versions that are not in use: old ones, and what a killed build left."""
    for path in folder.iterdir():
        if _VERSION.fullmatch(path.name) and path.name != keep:
            shutil.rmtree(path)
