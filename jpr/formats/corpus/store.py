"""Passages on disk: row or id → passage in microseconds, compressed and memory-mapped.

A store is four files: `passages.zst`, one small zstd frame with a checksum per passage, compressed
with a dictionary trained on the first passages (`passages.dict`); `offsets.npy`, where each frame
begins; and `keys.npy`, sorted pairs (64-bit hash of an id, row). A row never changes its number:
the frame of a removed passage stays, only its key is dropped.
"""

import hashlib
import json
import shutil
import threading
from array import array
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple, Self

import numpy as np
import zstandard
from numpy.typing import NDArray

from jpr.errors import DataError, FormatError
from jpr.io.atomic import link
from jpr.types import Passage

Numbers = NDArray[np.uint64]
FILES = ("passages.zst", "passages.dict", "offsets.npy", "keys.npy")
_SAMPLE = 10_000
_DICTIONARY_BYTES = 112_640
_LEVEL = 3
_TO_JSON = json.JSONEncoder(ensure_ascii=False).encode


class Written(NamedTuple):
    """The passages that a writer has added to a store."""

    passages: int
    sha256: str
    """Of their ids, titles, texts and meta, in their order."""


class StoreWriter:
    """Writes a store passage by passage, complete after `close`; memory holds 16 bytes of each."""

    def __init__(self, folder: Path, base: Path | None = None) -> None:
        """Begin in an existing folder, empty or with a copy of another store."""
        self._folder = folder
        self._offsets, self._keys = array("Q", [0]), array("Q")
        self._digest = hashlib.sha256()
        self._sample: list[bytes] = []
        self._compressor: zstandard.ZstdCompressor | None = None
        self._base = None if base is None else PassageStore(base)
        self._stream: BinaryIO | None = None
        if base is not None:
            dictionary = (base / "passages.dict").read_bytes()
            (folder / "passages.dict").write_bytes(dictionary)
            self._compressor = _compressor(zstandard.ZstdCompressionDict(dictionary))
            self._offsets = array("Q", np.load(base / "offsets.npy").tobytes())
        self._first = len(self._offsets) - 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._stream is not None:
            self._stream.close()

    def add(self, passage: Passage) -> int:
        """Append a passage and return its row."""
        packed = _pack(passage)
        row = self._first + len(self._keys)
        self._digest.update(b"%d\n" % len(packed))
        self._digest.update(packed)
        self._keys.append(_key(passage.id))
        if self._compressor is not None:
            self._write(packed, self._compressor)
        else:
            self._sample.append(packed)
            if len(self._sample) == _SAMPLE:
                self._train()
        return row

    def _train(self) -> None:
        dictionary = _dictionary(self._sample)
        (self._folder / "passages.dict").write_bytes(dictionary.as_bytes())
        self._compressor = _compressor(dictionary)
        for packed in self._sample:
            self._write(packed, self._compressor)
        self._sample = []

    def _write(self, packed: bytes, compressor: zstandard.ZstdCompressor) -> None:
        if self._stream is None:
            frames = self._folder / "passages.zst"
            if self._base is not None:
                shutil.copyfile(self._base.frames, frames)
            self._stream = frames.open("wb" if self._base is None else "ab")
        self._offsets.append(self._offsets[-1] + self._stream.write(compressor.compress(packed)))

    def close(self, removed: Collection[int] = ()) -> Written:
        """Finish the store, without some rows of the base; refuse an empty one and repeated ids."""
        if self._sample:
            self._train()
        if self._stream is not None:
            self._stream.close()
        elif self._base is not None:
            link(self._base.frames, self._folder / "passages.zst")
        hashes, rows = self._live(removed)
        if not len(hashes):
            empty = "the corpus holds no passage; was its download cut short?"
            raise DataError(empty if self._base is None else "no passage would be left")
        order = np.argsort(hashes, kind="stable")
        np.save(self._folder / "offsets.npy", np.frombuffer(self._offsets, dtype=np.uint64))
        np.save(self._folder / "keys.npy", np.stack([hashes[order], rows[order]]))
        _refuse_repeated(PassageStore(self._folder))
        return Written(len(self._keys), self._digest.hexdigest())

    def _live(self, removed: Collection[int]) -> tuple[Numbers, Numbers]:
        hashes = np.frombuffer(self._keys, dtype=np.uint64)
        rows = np.arange(self._first, self._first + len(hashes), dtype=np.uint64)
        if self._base is None:
            return hashes, rows
        kept = ~np.isin(self._base.rows, np.fromiter(removed, np.uint64, len(removed)))
        return (
            np.concatenate([self._base.keys[kept], hashes]),
            np.concatenate([self._base.rows[kept], rows]),
        )


def _compressor(dictionary: zstandard.ZstdCompressionDict) -> zstandard.ZstdCompressor:
    return zstandard.ZstdCompressor(level=_LEVEL, dict_data=dictionary, write_checksum=True)


def _dictionary(samples: list[bytes]) -> zstandard.ZstdCompressionDict:
    """Train a dictionary; too few samples are themselves the dictionary."""
    try:
        return zstandard.train_dictionary(_DICTIONARY_BYTES, [*samples])
    except zstandard.ZstdError:
        return zstandard.ZstdCompressionDict(b"".join(samples)[:_DICTIONARY_BYTES])


def _pack(passage: Passage) -> bytes:
    """Join a passage's parts behind their lengths: JSON takes three times as long."""
    meta = _TO_JSON(passage.meta) if passage.meta else ""
    lengths = f"{len(passage.id)} {len(passage.title)} {len(meta)}\n"
    joined = f"{lengths}{passage.id}{passage.title}{meta}{passage.text}"
    return joined.encode("utf-8", "surrogatepass")


def _unpack(packed: bytes) -> Passage:
    lengths, _, joined = packed.decode("utf-8", "surrogatepass").partition("\n")
    of_id, of_title, of_meta = map(int, lengths.split(" "))
    title_end = of_id + of_title
    meta_end = title_end + of_meta
    meta = joined[title_end:meta_end]
    known = (json.loads(meta),) if meta else ()
    return Passage(joined[:of_id], joined[of_id:title_end], joined[meta_end:], *known)


def _key(id: str) -> int:
    digest = hashlib.blake2b(id.encode("utf-8", "surrogatepass"), digest_size=8)
    return int.from_bytes(digest.digest(), "little")


class PassageStore:
    """An open store; threads may share it."""

    def __init__(self, folder: Path) -> None:
        """Map the files of a store; passages are read when they are needed."""
        self._folder = folder
        self.frames = folder / "passages.zst"
        try:
            self._frames = np.memmap(self.frames, mode="r")
            self._offsets = np.load(folder / "offsets.npy", mmap_mode="r")
            self.keys, self.rows = np.load(folder / "keys.npy", mmap_mode="r")
            dictionary = (folder / "passages.dict").read_bytes()
        except (OSError, ValueError, TypeError, EOFError) as error:
            problem = f"is not a complete passage store ({error}); build it again"
            raise FormatError(folder, 0, problem) from error
        if len(self._offsets) <= len(self.keys) or self._offsets[-1] != len(self._frames):
            raise FormatError(folder, 0, "its files do not fit together; build the store again")
        self._dictionary = zstandard.ZstdCompressionDict(dictionary)
        self._local = threading.local()

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def end(self) -> int:
        """The number of rows, those of removed passages included."""
        return len(self._offsets) - 1

    def __getitem__(self, row: int) -> Passage:
        if not 0 <= row < self.end:
            raise IndexError(f"row {row} of {self.end}")
        start, end = self._offsets[row : row + 2].tolist()
        try:
            return _unpack(self._decompressor().decompress(self._frames[start:end].tobytes()))
        except (zstandard.ZstdError, ValueError) as error:
            problem = f"passage {row} is damaged ({error}); build the store again"
            raise FormatError(self._folder, 0, problem) from error

    def __iter__(self) -> Iterator[Passage]:
        return (self[row] for row in np.sort(self.rows).tolist())

    def row_of(self, id: str) -> int | None:
        """Return the row of the passage with this id, or None."""
        key = _key(id)
        at = int(np.searchsorted(self.keys, np.uint64(key)))
        while at < len(self) and int(self.keys[at]) == key:
            row = int(self.rows[at])
            if self[row].id == id:
                return row
            at += 1  # another id with the same hash: one in 2**64
        return None

    def _decompressor(self) -> zstandard.ZstdDecompressor:
        if not hasattr(self._local, "decompressor"):  # threads must not share one
            self._local.decompressor = zstandard.ZstdDecompressor(dict_data=self._dictionary)
        known: zstandard.ZstdDecompressor = self._local.decompressor
        return known


def _refuse_repeated(store: PassageStore) -> None:
    keys, rows = np.asarray(store.keys), np.asarray(store.rows)
    for at in np.flatnonzero(keys[1:] == keys[:-1]).tolist():
        first, second = (store[int(rows[i])].id for i in (at, at + 1))
        if first == second:
            raise DataError(f"passage id {first!r} comes twice in the corpus; ids must differ")
