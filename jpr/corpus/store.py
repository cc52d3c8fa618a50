"""Passages on disk: row or id → passage in microseconds, compressed and memory-mapped.

A store is four files: `passages.zst`, one small zstd frame per passage, made with a dictionary
learnt from the first passages (`passages.dict`); `offsets.npy`, where each frame begins; and
`keys.npy`, sorted pairs (64-bit hash of an id, row).
"""

import hashlib
import json
import threading
from array import array
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path

import numpy as np
import zstandard

from jpr.errors import DataError, FormatError
from jpr.types import Passage

FILES = ("passages.zst", "passages.dict", "offsets.npy", "keys.npy")
_SAMPLE = 10_000
_DICTIONARY_BYTES = 112_640
_LEVEL = 3


def write_store(passages: Iterable[Passage], folder: Path) -> int:
    """Write a store into an existing folder and return the number of passages.

    Memory holds 16 bytes a passage. An id that comes twice is an error.
    """
    rest = iter(passages)
    sample = list(islice(rest, _SAMPLE))
    if not sample:
        raise DataError("the corpus holds no passage; was its download cut short?")
    dictionary = _learn([*map(_pack, sample)])
    (folder / "passages.dict").write_bytes(dictionary.as_bytes())
    compressor = zstandard.ZstdCompressor(level=_LEVEL, dict_data=dictionary)
    offsets, keys = array("Q", [0]), array("Q")
    with (folder / "passages.zst").open("wb") as stream:
        for passage in chain(sample, rest):
            offsets.append(offsets[-1] + stream.write(compressor.compress(_pack(passage))))
            keys.append(_key(passage.id))
    np.save(folder / "offsets.npy", np.frombuffer(offsets, dtype=np.uint64))
    hashes = np.frombuffer(keys, dtype=np.uint64)
    rows = np.argsort(hashes, kind="stable").astype(np.uint64)
    np.save(folder / "keys.npy", np.stack([hashes[rows], rows]))
    _refuse_repeated(PassageStore(folder))
    return len(keys)


def _learn(samples: list[bytes | bytearray | memoryview]) -> zstandard.ZstdCompressionDict:
    """Learn what passages have in common; too few samples are their own dictionary."""
    try:
        return zstandard.train_dictionary(_DICTIONARY_BYTES, samples)
    except zstandard.ZstdError:
        return zstandard.ZstdCompressionDict(b"".join(samples)[:_DICTIONARY_BYTES])


def _pack(passage: Passage) -> bytes:
    record = [passage.id, passage.title, passage.text, *([passage.meta] if passage.meta else [])]
    return json.dumps(record, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _key(id: str) -> int:
    digest = hashlib.blake2b(id.encode("utf-8", "surrogatepass"), digest_size=8)
    return int.from_bytes(digest.digest(), "little")


class PassageStore:
    """An open store; threads may share it."""

    def __init__(self, folder: Path) -> None:
        """Map the files of a store; nothing is read until it is asked for."""
        self._folder = folder
        try:
            self._frames = np.memmap(folder / "passages.zst", mode="r")
            self._offsets = np.load(folder / "offsets.npy", mmap_mode="r")
            self._keys, self._rows = np.load(folder / "keys.npy", mmap_mode="r")
            self._dictionary = zstandard.ZstdCompressionDict(
                (folder / "passages.dict").read_bytes()
            )
        except (OSError, ValueError) as error:
            raise FormatError(
                folder, 0, f"is no whole passage store ({error}); build it again"
            ) from error
        if len(self._offsets) != len(self._keys) + 1 or self._offsets[-1] != len(self._frames):
            raise FormatError(folder, 0, "its files do not fit together; build the store again")
        self._local = threading.local()

    def __len__(self) -> int:
        return len(self._keys)

    def __getitem__(self, row: int) -> Passage:
        """Return the passage in a row, counted from 0."""
        if not 0 <= row < len(self):
            raise IndexError(f"row {row} of {len(self)}")
        start, end = self._offsets[row : row + 2].tolist()
        try:
            packed = self._decompressor().decompress(self._frames[start:end].tobytes())
            id, title, text, *meta = json.loads(packed)
        except (zstandard.ZstdError, ValueError) as error:
            raise FormatError(
                self._folder, 0, f"passage {row} is damaged ({error}); build the store again"
            ) from error
        return Passage(id, title, text, *meta)

    def __iter__(self) -> Iterator[Passage]:
        return (self[row] for row in range(len(self)))

    def row_of(self, id: str) -> int | None:
        """Return the row of the passage with this id, or None."""
        key = _key(id)
        at = int(np.searchsorted(self._keys, np.uint64(key)))
        while at < len(self) and int(self._keys[at]) == key:
            row = int(self._rows[at])
            if self[row].id == id:
                return row
            at += 1  # another id with the same hash: one in 2**64
        return None

    def _decompressor(self) -> zstandard.ZstdDecompressor:
        """Return this thread's own decompressor, which must not be shared."""
        known: zstandard.ZstdDecompressor | None = getattr(self._local, "decompressor", None)
        if known is None:
            known = zstandard.ZstdDecompressor(dict_data=self._dictionary)
            self._local.decompressor = known
        return known


def _refuse_repeated(store: PassageStore) -> None:
    """Look at the ids whose hashes agree."""
    keys, rows = np.asarray(store._keys), np.asarray(store._rows)
    for at in np.flatnonzero(keys[1:] == keys[:-1]).tolist():
        first, second = (store[int(rows[i])].id for i in (at, at + 1))
        if first == second:
            raise DataError(f"passage id {first!r} comes twice in the corpus; ids must differ")
