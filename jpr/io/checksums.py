"""Checksums of files and of the JSON records that describe them.

A record is sealed: it holds the hash of everything else in it. The record of a model folder
(`joint.json`, `encoder.json`, `reader.json`) also holds the hashes of the files beside it, `sums`.
Records and folders of older versions, or of other programs, have none.
"""

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from jpr.errors import FormatError
from jpr.io.atomic import explain_read_errors
from jpr.io.json_files import read_object, write_json

_SEAL, _SUMS = "sha256", "sums"
_DAMAGED = "is damaged: its checksum does not match; copy or make it again"


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file's bytes on the disk."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def sealed(record: Mapping[str, object]) -> dict[str, object]:
    """Return a record with its hash."""
    return {**record, _SEAL: _hash_of(record)}


def unsealed(file: Path, record: Mapping[str, object]) -> dict[str, object]:
    """Return a record without its hash, which must match if there is one."""
    plain = {name: value for name, value in record.items() if name != _SEAL}
    if record.get(_SEAL) not in (None, _hash_of(plain)):
        raise FormatError(file, 0, _DAMAGED)
    return plain


def _hash_of(record: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def check_sums(sums: Mapping[Path, str], largest: float = math.inf) -> None:
    """Compare files with their hashes, except those larger than `largest` bytes."""
    for path, expected in sums.items():
        with explain_read_errors(path):
            same = path.stat().st_size > largest or sha256(path) == expected
        if not same:
            raise FormatError(path, 0, _DAMAGED)


def with_sums(
    record: Mapping[str, object], folder: Path, names: Iterable[str]
) -> dict[str, object]:
    """Return a model's record, sealed, with the hashes of those of the files that exist."""
    present = [name for name in names if (folder / name).exists()]
    return sealed({**record, _SUMS: {name: sha256(folder / name) for name in present}})


def write_folder(
    file: Path, record: Mapping[str, object], write: Callable[[], Iterable[str]]
) -> None:
    """Write a model's record and the files beside it, which `write` writes and names.

    Until they are complete the record holds no hashes, for the files may be older ones.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    write_json(file, sealed(record))
    write_json(file, with_sums(record, file.parent, [*write(), "tokenizer.json"]))


def read_record(file: Path) -> tuple[dict[str, object], dict[Path, str]]:
    """Read a model's record, and the hashes it holds of the files beside it."""
    record = unsealed(file, read_object(file))
    sums = record.pop(_SUMS, {})
    if not isinstance(sums, dict) or not all(_is_inside(file.parent, name) for name in sums):
        raise FormatError(file, 0, _DAMAGED)
    return record, {file.parent / name: expected for name, expected in sums.items()}


def checked_sums(file: Path) -> dict[Path, str]:
    """Return the hashes in a model's record, if there is one, after a check of the files."""
    sums = read_record(file)[1] if file.exists() else {}
    check_sums(sums)
    return sums


def _is_inside(folder: Path, name: str) -> bool:
    path = folder / name
    inside = not Path(name).is_absolute() and ".." not in Path(name).parts and "\0" not in name
    return inside and (path.is_file() or not path.exists())
