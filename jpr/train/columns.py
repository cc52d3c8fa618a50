"""Flat arrays that grow on disk side by side, so that interrupted work can be resumed.

Appended values count from the next `commit` on; whatever a killed process appended after its last
commit is truncated. A commit records the hashes of all columns: if one differs, work starts over.
"""

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jpr.errors import FormatError
from jpr.io.atomic import explain_write_errors, publish
from jpr.io.checksums import sealed, unsealed
from jpr.io.json_files import read_object
from jpr.io.locks import locked

_STATE = "state.json"
_CHUNK = 1 << 20


class Columns:
    """Arrays that are open for appending; `open_columns` makes them."""

    def __init__(self, folder: Path, key: str, types: Mapping[str, type], stack: ExitStack) -> None:
        """Resume from the last commit with the same key, or start."""
        self._folder, self._key, self._types = folder, key, types
        state = self._state()
        self.done: int = state["done"]  # what was committed, in the writer's unit
        self._bytes: dict[str, int] = {name: state["bytes"].get(name, 0) for name in types}
        with explain_write_errors(folder):
            self._streams = {
                name: stack.enter_context(self._path(name).open("ab")) for name in types
            }
            for name, stream in self._streams.items():
                stream.truncate(self._bytes[name])
            self._hashes = {name: _hash(self._path(name), self._bytes[name]) for name in types}

    def _state(self) -> dict[str, Any]:
        with suppress(FormatError, KeyError, OSError):  # missing or damaged: start over
            file = self._folder / _STATE
            state: dict[str, Any] = unsealed(file, read_object(file))
            if state["key"] == self._key and all(
                _hash(self._path(name), state["bytes"][name]).hexdigest() == state["hashes"][name]
                for name in self._types
            ):
                return state
        return {"done": 0, "bytes": {}}

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.bin"

    def length(self, name: str) -> int:
        """Return the length of a column."""
        return self._bytes[name] // np.dtype(self._types[name]).itemsize

    def append(self, name: str, values: NDArray[Any]) -> None:
        """Append values to a column, cast to its type."""
        packed = values.astype(self._types[name]).tobytes()
        with explain_write_errors(self._folder):
            self._bytes[name] += self._streams[name].write(packed)
        self._hashes[name].update(packed)

    def commit(self, done: int) -> None:
        """Keep everything appended so far, whatever happens from now on."""
        with explain_write_errors(self._folder):
            for stream in self._streams.values():
                stream.flush()
        self.done += done
        hashes = {name: so_far.hexdigest() for name, so_far in self._hashes.items()}
        state = {"key": self._key, "done": self.done, "bytes": self._bytes, "hashes": hashes}
        with publish(self._folder / _STATE) as file:
            file.write(json.dumps(sealed(state)))

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return a column, memory-mapped."""
        if not self.length(name):
            return np.empty(0, dtype=self._types[name])
        with explain_write_errors(self._folder):
            self._streams[name].flush()
        return np.memmap(self._path(name), dtype=self._types[name], mode="r")


def _hash(path: Path, size: int) -> "hashlib._Hash":
    """Return the hash of a file's first bytes, to be updated; of fewer if the file is shorter."""
    found = hashlib.sha256()
    with path.open("rb") as stream:
        while size > 0 and (chunk := stream.read(min(size, _CHUNK))):
            found.update(chunk)
            size -= len(chunk)
    return found


@contextmanager
def open_columns(folder: Path, key: str, types: Mapping[str, type]) -> Iterator[Columns]:
    """Open columns for one process at a time; the folder is removed if no error occurs."""
    with ExitStack() as stack:
        with explain_write_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(locked(folder / "lock"))
        yield Columns(folder, key, types, stack)
        shutil.rmtree(folder)
