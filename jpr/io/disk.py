"""Files safe on the disk, JSON objects, checksums and locks, by Python's own library alone.

So this serves where models are trained too, and `io.files`, with its compressed formats, does not.

A record of ours is sealed: it holds the hash of all else that it says. What it says of other files,
their hashes among it, is then as good as they are. So the record of a model's folder (`joint.json`,
`encoder.json`, `reader.json`) tells the hashes of the files beside it, its `sums`.
"""

import fcntl
import hashlib
import json
import math
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from jpr.errors import FormatError


def publish_file(part: Path, path: Path) -> None:
    """Give a finished file its name, after it is safe on the disk."""
    _sync(part)
    part.replace(path)


def copy_file(source: Path, path: Path) -> None:
    """Copy a file; the copy appears whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    shutil.copyfile(source, part)
    publish_file(part, path)


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


@contextmanager
def temporary_folder(prefix: str) -> Iterator[Path]:
    """Give a folder of one's own, until it is no longer needed.

    Who is killed leaves it behind, unlocked: the next who asks for one removes it.
    """
    home = Path(tempfile.gettempdir())
    for old in home.glob(f"{prefix}*"):
        _remove_unlocked(old)
    hidden = Path(tempfile.mkdtemp(prefix=f".{prefix}"))
    folder = home / hidden.name.removeprefix(".")
    try:
        with locked(hidden / _LOCK):
            hidden.rename(folder)  # from now on, others look whether it is locked
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


_LOCK = "lock"


def _remove_unlocked(folder: Path) -> None:
    """Remove a folder of ours of which nobody holds the lock.

    Whose it is comes first: what another user put there may lead anywhere.
    """
    with suppress(OSError):
        ours = folder.lstat().st_uid == os.getuid() and not folder.is_symlink()
        if ours and stat.S_ISREG((folder / _LOCK).lstat().st_mode):
            with locked(folder / _LOCK):
                shutil.rmtree(folder, ignore_errors=True)


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
    except (ValueError, RecursionError) as error:
        raise FormatError(file, 0, f"is no JSON ({error}); copy it again") from error
    return value


def read_object(file: Path) -> dict[str, object]:
    """Read a file that holds one JSON object."""
    value = read_json(file)
    if not isinstance(value, dict):
        raise FormatError(file, 0, "holds no JSON object; is it the right file?")
    return value


def write_json(path: Path, value: Mapping[str, object]) -> None:
    """Write one JSON object; the file appears whole or not at all."""
    part = path.with_name(f".{path.name}.part")
    part.write_text(json.dumps(dict(value), indent=1) + "\n", encoding="utf-8")
    publish_file(part, path)


_SEAL, _SUMS = "sha256", "sums"
_DAMAGED = "is damaged: it is not what was written; copy or make it again"


def sealed(record: Mapping[str, object]) -> dict[str, object]:
    """Return a record with the hash of what it says, for `unsealed`."""
    return {**record, _SEAL: _hash_of(record)}


def unsealed(file: Path, record: Mapping[str, object]) -> dict[str, object]:
    """Return what was read from a file less its seal, which must be right.

    A record of before there were any has none.
    """
    plain = {name: value for name, value in record.items() if name != _SEAL}
    if record.get(_SEAL) not in (None, _hash_of(plain)):
        raise FormatError(file, 0, _DAMAGED)
    return plain


def _hash_of(record: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file's bytes as they lie on the disk."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def check_sums(folder: Path, sums: Mapping[str, str], largest: float = math.inf) -> None:
    """Compare files of a folder with their hashes, but for those of more than so many bytes."""
    for name, wanted in sums.items():
        path = folder / name
        try:
            same = path.stat().st_size > largest or sha256(path) == wanted
        except OSError as error:
            raise FormatError(path, 0, f"cannot be read: {error.strerror}") from error
        if not same:
            raise FormatError(path, 0, _DAMAGED)


def with_sums(
    record: Mapping[str, object], folder: Path, names: Iterable[str]
) -> dict[str, object]:
    """Return a model's record, sealed, with the hashes of those of these files that are there."""
    there = [name for name in names if (folder / name).exists()]
    return sealed({**record, _SUMS: {name: sha256(folder / name) for name in there}})


def write_folder(
    file: Path, record: Mapping[str, object], write: Callable[[], Iterable[str]]
) -> None:
    """Write a model's record and the files beside it, which `write` writes and names.

    Meanwhile the record tells no hashes, as files may be of before. The tokenizer is there already.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    write_json(file, sealed(record))
    write_json(file, with_sums(record, file.parent, [*write(), "tokenizer.json"]))


def read_record(file: Path) -> dict[str, object]:
    """Read what a model's record says, but for its checksums."""
    record = unsealed(file, read_object(file))
    record.pop(_SUMS, None)
    return record


def known_sums(file: Path) -> dict[Path, str]:
    """Return the hashes that a model's record tells of the files beside it.

    There are none where another program wrote the folder, or we did before there were any.
    """
    sums = unsealed(file, read_object(file)).get(_SUMS, {}) if file.exists() else {}
    if not isinstance(sums, dict) or not all(_is_inside(file.parent, name) for name in sums):
        raise FormatError(file, 0, _DAMAGED)
    return {file.parent / name: wanted for name, wanted in sums.items()}


def checked_sums(file: Path) -> dict[Path, str]:
    """Do the same, after a comparison of the files with them."""
    sums = known_sums(file)
    check_sums(file.parent, {str(path.relative_to(file.parent)): sums[path] for path in sums})
    return sums


def _is_inside(folder: Path, name: str) -> bool:
    """Tell whether a name is of a file below a folder, or of none, but of nothing else."""
    path = folder / name
    inside = not Path(name).is_absolute() and ".." not in Path(name).parts and "\0" not in name
    return inside and (path.is_file() or not path.exists())
