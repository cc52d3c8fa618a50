"""Flat arrays that grow on disk side by side, so that interrupted work can be resumed.

Appended values count from the next `commit` on; whatever a killed process appended after its last
commit is truncated. A commit records the hashes of all columns: if one differs, work starts over.
"""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from io import BufferedRandom
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jpr.errors import FormatError
from jpr.io.atomic import explain_write_errors
from jpr.io.checksums import sealed, unsealed
from jpr.io.json_files import read_object, write_json
from jpr.io.locks import locked


class Columns:
    """Arrays that are open for appending; `open_columns` makes them."""

    def __init__(
        self,
        folder: Path,
        key: str,
        types: Mapping[str, type],
        streams: Mapping[str, BufferedRandom],
    ) -> None:
        """Resume from the last commit with the same key, or start."""
        self._folder, self._key, self._types, self._streams = folder, key, types, streams
        self._state = folder / "state.json"
        self.done = 0  # what was committed, in the writer's unit
        with suppress(FormatError, KeyError, OSError):  # missing or damaged: start over
            state: dict[str, Any] = unsealed(self._state, read_object(self._state))
            self._truncate(state["bytes"])
            if (state["key"], state["hashes"]) == (key, self._digests()):
                self.done = state["done"]
        if not self.done:
            with explain_write_errors(folder):
                self._truncate(dict.fromkeys(types, 0))

    def _truncate(self, sizes: Mapping[str, int]) -> None:
        self._sizes = {name: sizes[name] for name in self._streams}  # in bytes
        self._hashes = {}
        for name, stream in self._streams.items():
            stream.truncate(self._sizes[name])
            stream.seek(0)
            self._hashes[name] = hashlib.file_digest(stream, "sha256")

    def _digests(self) -> dict[str, str]:
        return {name: so_far.hexdigest() for name, so_far in self._hashes.items()}

    def length(self, name: str) -> int:
        """Return the length of a column."""
        return self._sizes[name] // np.dtype(self._types[name]).itemsize

    def append(self, name: str, values: ArrayLike) -> None:
        """Append values to a column, cast to its type."""
        packed = np.asarray(values, dtype=self._types[name]).tobytes()
        with explain_write_errors(self._folder):
            self._sizes[name] += self._streams[name].write(packed)
        self._hashes[name].update(packed)

    def commit(self, done: int) -> None:
        """Keep everything appended so far, whatever happens from now on."""
        with explain_write_errors(self._folder):
            for stream in self._streams.values():
                stream.flush()
        self.done += done
        sizes, hashes = self._sizes, self._digests()
        state = {"key": self._key, "done": self.done, "bytes": sizes, "hashes": hashes}
        write_json(self._state, sealed(state))

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return a column, memory-mapped."""
        if not self.length(name):
            return np.empty(0, dtype=self._types[name])
        with explain_write_errors(self._folder):
            self._streams[name].flush()
        return np.memmap(self._streams[name].name, dtype=self._types[name], mode="r")


@contextmanager
def open_columns(folder: Path, key: str, types: Mapping[str, type]) -> Iterator[Columns]:
    """Open columns for one process at a time; the folder is removed if no error occurs."""
    with ExitStack() as stack:
        with explain_write_errors(folder):
            lock = stack.enter_context(locked(folder / "lock"))
            streams = {
                name: stack.enter_context((folder / f"{name}.bin").open("a+b")) for name in types
            }
        yield Columns(folder, key, types, streams)
        lock.remove_folder()
