"""Checksums of an index's files by blocks of a megabyte, and the check of large files.

`VERSION/blocks.json` has the hash of every block; without it (an index of jpr 0.1) a file is one
block. Small files are compared whenever an index is opened (`index_manifest.py`), a large one at
its first use: once a week on each machine. A marker in the cache, an empty file, is named by the
file's identity, size, times and hash, so a file that was changed or copied is compared again.
"""

import hashlib
import os
import time
import weakref
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path

from jpr.errors import FormatError
from jpr.io.atomic import explain_read_errors
from jpr.io.checksums import sealed
from jpr.io.json_files import write_json
from jpr.io.locks import cache_folder
from jpr.io.manifest import usable_cores
from jpr.io.settings import read_sealed

BLOCKS = "blocks.json"
_BLOCK = 1 << 20
_FORMAT = 1
_WEEK = 7 * 24 * 60 * 60
TICK = 2.0  # seconds: a file that was just changed may change again before its clock ticks


@dataclass(frozen=True, slots=True)
class BlockSums:
    """What `blocks.json` holds."""

    files: Mapping[str, tuple[str, ...]]
    """SHA-256 of each block of a file, by the file's path in the version."""
    format: int = _FORMAT

    def write(self, version: Path) -> None:
        """Write the file of a version."""
        write_json(version / BLOCKS, sealed(asdict(self)))


def read_block_sums(version: Path) -> BlockSums:
    """Read the file of a version; one without it has no blocks."""
    file = version / BLOCKS
    return read_sealed(BlockSums, file, _FORMAT) if file.exists() else BlockSums({})


def hash_blocks(file: Path) -> tuple[str, ...]:
    """Return the hashes of a file's blocks."""
    return tuple(HashedFile(file, "").hashes(_BLOCK))


class HashedFile:
    """An open file and its checksum; it can be compared even if it has lost its name."""

    def __init__(self, path: Path, sum: str) -> None:
        """Open a file with this checksum."""
        self.path, self._sum = path, sum
        with explain_read_errors(path):
            self._handle = os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, self._handle)
        self._status = os.fstat(self._handle)

    def hashes(self, block: int) -> list[str]:
        """Hash the file in blocks, on all cores."""

        def hash_from(start: int) -> str:
            digest, end = hashlib.sha256(), min(start + block, size)
            for at in range(start, end, _BLOCK):
                digest.update(os.pread(self._handle, min(_BLOCK, end - at), at))
            return digest.hexdigest()

        size = self._status.st_size
        with explain_read_errors(self.path), ThreadPoolExecutor(usable_cores()) as pool:
            return list(pool.map(hash_from, range(0, max(size, 1), block)))

    def problem(self, blocks: Sequence[str]) -> str:
        """Return how the file is damaged, by the checksums of its blocks if there are any.

        A file that is not damaged is marked, and its problem is empty.
        """
        known = blocks or [self._sum]
        found = self.hashes(_BLOCK if blocks else max(self._status.st_size, 1))
        pairs = enumerate(zip_longest(found, known), start=1)
        if damaged := [number for number, (one, other) in pairs if one != other]:
            which = ", ".join(map(str, damaged[:5])) + (", …" if damaged[5:] else "")
            where = f" in block {which} of {len(blocks)} (1 MiB each)" if blocks[1:] else ""
            return f"is damaged{where}"
        self._mark()
        return ""

    @property
    def is_marked(self) -> bool:
        """Whether this machine found the file whole less than a week ago."""
        with suppress(OSError):
            return 0 <= time.time() - self._marker.stat().st_mtime < _WEEK
        return False

    @property
    def _marker(self) -> Path:
        s = self._status
        identity = (s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns, self._sum)
        return cache_folder() / "whole" / hashlib.sha256(repr(identity).encode()).hexdigest()

    def _mark(self) -> None:
        """Write the marker and remove old ones; without a cache the next process checks again."""
        now, marker = time.time(), self._marker
        if max(self._status.st_mtime, self._status.st_ctime) > now - TICK:
            return
        with suppress(OSError):
            marker.parent.mkdir(parents=True, exist_ok=True)
            for old in marker.parent.iterdir():
                if old.stat().st_mtime < now - _WEEK:
                    old.unlink()
            marker.touch()


class FirstUse:
    """The large files of a version, each compared before it is used for the first time."""

    def __init__(self, version: Path, sums: Mapping[str, str]) -> None:
        """Open the files with these checksums, except those that are marked as whole."""
        files = {name: HashedFile(version / name, sum) for name, sum in sums.items()}
        self._left = {name: file for name, file in files.items() if not file.is_marked}
        self._blocks = read_block_sums(version).files if self._left else {}
        self._problems: dict[str, str] = {}

    def check(self, part: str) -> None:
        """Raise FormatError if a file of this part is damaged."""
        for name, file in list(self._left.items()):
            if not name.startswith(f"{part}/"):
                continue
            if name not in self._problems:
                self._problems[name] = file.problem(self._blocks.get(name, ()))
            if problem := self._problems[name]:
                raise FormatError(file.path, 0, f"{problem}; see jpr doctor INDEX")
            self._left.pop(name, None)
