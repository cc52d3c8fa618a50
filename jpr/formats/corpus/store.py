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
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from tokenize import TokenError
from typing import BinaryIO, NamedTuple, Self

import numpy as np
import zstandard
from numpy.typing import NDArray

from jpr.errors import DataError, FormatError
from jpr.io.atomic import explain_damage, link
from jpr.types import NO_META, Passage

FILES = ("passages.zst", "passages.dict", "offsets.npy", "keys.npy")
_BATCH = 10_000  # passages compressed at once; a dictionary is trained on the first
_DICTIONARY_BYTES = 112_640
_LEVEL = 3
_LARGEST = 1 << 30  # bytes of a passage
_AGAIN = "build the index again"
_DAMAGE = (
    ArithmeticError,
    EOFError,
    OSError,
    RecursionError,
    SyntaxError,
    TokenError,
    TypeError,
    ValueError,
    zstandard.ZstdError,
)
"""Errors of numpy and zstd on files that are damaged: numpy's headers are Python literals."""
_TO_JSON = json.JSONEncoder(ensure_ascii=False).encode


class Written(NamedTuple):
    """The passages that a writer has added to a store."""

    passages: int
    sha256: str  # of their ids, titles, texts and meta, in their order


class StoreWriter:
    """Writes a store passage by passage, complete after `close`; memory holds 16 bytes of each."""

    def __init__(self, folder: Path, base: Path | None = None) -> None:
        """Begin in an existing folder, empty or with a copy of another store."""
        self._folder = folder
        self._base = None if base is None else PassageStore(base)
        self._offsets = array("Q", bytes(8) if self._base is None else self._base.offsets.tobytes())
        self._first = len(self._offsets) - 1
        self._keys = array("Q")
        self._digest = hashlib.sha256()
        self._batch: list[bytes] = []
        self._stream: BinaryIO | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._stream is not None:
            self._stream.close()

    def add(self, passage: Passage) -> int:
        """Append a passage and return its row."""
        packed = _pack(passage)
        self._digest.update(b"%d\n" % len(packed))
        self._digest.update(packed)
        self._keys.append(_key(passage.id))
        self._batch.append(packed)
        if len(self._batch) == _BATCH:
            self._write()
        return self._first + len(self._keys) - 1

    def _write(self) -> None:
        """Compress a batch; the dictionary of a new store is trained on its first."""
        if self._stream is None:
            frames = self._folder / "passages.zst"
            if self._base is None:
                dictionary = _dictionary(self._batch)
                self._stream = frames.open("wb")
            else:
                dictionary = self._base.dictionary
                shutil.copyfile(self._base.folder / "passages.zst", frames)
                self._stream = frames.open("ab")
            (self._folder / "passages.dict").write_bytes(dictionary.as_bytes())
            self._compressor = zstandard.ZstdCompressor(
                level=_LEVEL, dict_data=dictionary, write_checksum=True
            )
        with explain_damage(self._folder, "is damaged", _AGAIN, zstandard.ZstdError):
            packed = [self._compressor.compress(one) for one in self._batch]
        for frame in packed:
            self._offsets.append(self._offsets[-1] + self._stream.write(frame))
        self._batch = []

    def close(self, removed: Collection[int] = ()) -> Written:
        """Finish the store, without some rows of the base; refuse an empty one and repeated ids."""
        if self._batch:
            self._write()
        if self._stream is not None:
            self._stream.close()
        elif self._base is not None:
            for name in ("passages.zst", "passages.dict"):
                link(self._base.folder / name, self._folder / name)
        keys = np.frombuffer(self._keys, dtype=np.uint64)
        rows = np.arange(self._first, self._first + len(keys), dtype=np.uint64)
        if self._base is not None:
            kept = ~np.isin(self._base.rows, np.fromiter(removed, np.uint64, len(removed)))
            keys = np.concatenate([self._base.keys[kept], keys])
            rows = np.concatenate([self._base.rows[kept], rows])
        if not len(keys):
            empty = "the corpus holds no passage; was its download cut short?"
            raise DataError(empty if self._base is None else "no passage would be left")
        order = np.argsort(keys, kind="stable")
        np.save(self._folder / "offsets.npy", np.frombuffer(self._offsets, dtype=np.uint64))
        np.save(self._folder / "keys.npy", np.stack([keys[order], rows[order]]))
        _refuse_repeated(PassageStore(self._folder))
        return Written(len(self._keys), self._digest.hexdigest())


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
    title_at, of_title, of_meta = map(int, lengths.split(" "))
    meta_at = title_at + of_title
    text_at = meta_at + of_meta
    meta = json.loads(joined[meta_at:text_at]) if of_meta else NO_META
    if not isinstance(meta, Mapping):
        raise ValueError("its metadata is no JSON object")
    return Passage(joined[:title_at], joined[title_at:meta_at], joined[text_at:], meta)


def _numbers(file: Path, dimensions: int) -> NDArray[np.uint64]:
    found = np.load(file, mmap_mode="r")
    if (found.dtype, found.ndim) != (np.uint64, dimensions):
        raise ValueError(f"{file.name} holds {found.dtype} of shape {found.shape}")
    return found  # type: ignore[no-any-return]  # numpy's


def _key(id: str) -> int:
    digest = hashlib.blake2b(id.encode("utf-8", "surrogatepass"), digest_size=8)
    return int.from_bytes(digest.digest(), "little")


class PassageStore:
    """An open store; threads may share it."""

    def __init__(self, folder: Path) -> None:
        """Map the files of a store; passages are read when they are needed."""
        self.folder = folder
        try:
            self._frames = np.memmap(folder / "passages.zst", mode="r")
            self.offsets = _numbers(folder / "offsets.npy", 1)
            self.keys, self.rows = _numbers(folder / "keys.npy", 2)
            dictionary = (folder / "passages.dict").read_bytes()
        except (*_DAMAGE, MemoryError) as error:
            problem = f"is not a complete passage store ({error}); build it again"
            raise FormatError(folder, 0, problem) from error
        if len(self.offsets) <= len(self.keys) or self.offsets[-1] != len(self._frames):
            raise FormatError(folder, 0, "its files do not fit together; build the store again")
        self.dictionary = zstandard.ZstdCompressionDict(dictionary)
        self._local = threading.local()

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def end(self) -> int:
        """The number of rows, those of removed passages included."""
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> Passage:
        if not 0 <= row < self.end:
            raise FormatError(self.folder, 0, f"there is no row {row} of {self.end}; {_AGAIN}")
        start, end = self.offsets[row : row + 2].tolist()
        try:
            if not hasattr(self._local, "unpack"):  # threads must not share a decompressor
                decompressor = zstandard.ZstdDecompressor(dict_data=self.dictionary)
                self._local.unpack = decompressor.decompress
            frame = self._frames[start:end].tobytes()
            if zstandard.frame_content_size(frame) > _LARGEST:
                raise ValueError("it is too large")
            return _unpack(self._local.unpack(frame))
        except _DAMAGE as error:
            problem = f"passage {row} is damaged ({error}); {_AGAIN}"
            raise FormatError(self.folder, 0, problem) from error

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


def _refuse_repeated(store: PassageStore) -> None:
    for at in np.flatnonzero(store.keys[1:] == store.keys[:-1]).tolist():
        first, second = (store[row].id for row in store.rows[at : at + 2].tolist())
        if first == second:
            raise DataError(f"passage id {first!r} comes twice in the corpus; ids must differ")
