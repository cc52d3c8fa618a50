"""A corpus of vectors on disk, made chunk by chunk, so that a killed run goes on where it was.

    FOLDER/head.json          encoder key, dimension, kind, passages per chunk
    FOLDER/000000.npz         the vectors of the first chunk and a digest of its passages, …
    FOLDER/done.json          how many passages there are in all; the last file to appear

Every file appears whole or not at all, and carries a checksum. The kind is `float16`, or `sq8`:
one byte a number, by steps of 1/255 of the range that a dimension has in the chunk.
"""

import hashlib
import json
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from jpr.encode.encoder import Vectors
from jpr.errors import ConfigError, DataError, FormatError
from jpr.io.atomic import publish, publish_binary
from jpr.io.checksums import sealed, unsealed
from jpr.io.json_files import read_object
from jpr.stages import Encoder, Progress
from jpr.types import Passage

_ARRAYS = {"float16": ("vectors",), "sq8": ("vectors", "low", "step")}
KINDS = tuple(_ARRAYS)
"""How numbers may be stored."""
_FORMAT = 1
_STEPS = 255
_DAMAGE = (OSError, ValueError, KeyError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)
"""What reading a damaged archive may end in; it may look like one with a password, for instance."""

Chunk = tuple[int, list[Passage]]
"""A chunk's number and its passages."""
MapChunks = Callable[[Iterable[Chunk], Encoder], Iterator[tuple[int, Vectors]]]
"""Encodes chunks, in any order."""


def encode_here(chunks: Iterable[Chunk], encoder: Encoder) -> Iterator[tuple[int, Vectors]]:
    """Encode chunk after chunk in this process."""
    for number, passages in chunks:
        yield number, encoder.encode_passages(passages)


@dataclass(frozen=True, slots=True)
class Head:
    """What all chunks of a folder have in common."""

    key: str
    dimension: int
    kind: str
    chunk: int
    format: int = _FORMAT


def encode_to_folder(
    passages: Iterable[Passage],
    encoder: Encoder,
    folder: Path,
    *,
    kind: str = "float16",
    chunk: int = 1024,
    map_chunks: MapChunks = encode_here,
    progress: Progress = lambda _: None,
) -> int:
    """Encode a corpus into a folder and return the number of passages.

    Chunks that are already there are kept, if they are of the same encoder and passages; passages
    that differ from those of a chunk that is there are an error.
    """
    if kind not in KINDS:
        raise ConfigError(f"vectors as {kind!r}; choose of {', '.join(KINDS)}")
    head = Head(encoder.key, encoder.dimension, kind, chunk)
    _begin(folder, head)
    count = 0
    digests: dict[int, str] = {}

    def missing() -> Iterator[Chunk]:
        nonlocal count
        for number, part in _chunked(passages, chunk):
            count += len(part)
            digests[number] = _digest(part)
            if _has(folder, number, digests[number]):
                progress(len(part))
            else:
                yield number, part

    for number, vectors in map_chunks(missing(), encoder):
        _write(folder, head, number, vectors, digests[number])
        progress(len(vectors))
    if not count:
        raise DataError("the corpus holds no passage; was its download cut short?")
    _finish(folder, count, len(digests))
    return count


def _chunked(passages: Iterable[Passage], size: int) -> Iterator[Chunk]:
    rest = iter(passages)
    number = 0
    while part := list(islice(rest, size)):
        yield number, part
        number += 1


def _digest(passages: list[Passage]) -> str:
    digest = hashlib.sha256()
    for passage in passages:
        record = json.dumps([passage.id, passage.title, passage.text])
        digest.update(f"{record}\n".encode())
    return digest.hexdigest()


def _begin(folder: Path, head: Head) -> None:
    """Begin a folder, or make sure that the one that is there is for the same vectors."""
    file = folder / "head.json"
    if file.exists():
        found = _read_head(file)
        for name, wanted in asdict(head).items():
            if getattr(found, name) != wanted:
                told = f"{name} {getattr(found, name)} instead of {wanted}"
                raise ConfigError(f"{folder}: holds vectors with {told}; choose another folder")
        return
    if folder.is_dir() and any(path.name[0] != "." for path in folder.iterdir()):
        raise ConfigError(f"{folder}: holds something else than vectors; choose another folder")
    with publish(file) as stream:
        stream.write(json.dumps(sealed(asdict(head)), indent=1) + "\n")


def _read_head(file: Path) -> Head:
    given = read_object(file)
    if given.get("format") != _FORMAT:
        raise FormatError(file, 0, f"is of format {given.get('format')}, this program reads 1")
    try:
        head = Head(**unsealed(file, given))  # type: ignore[arg-type]  # checked below
    except TypeError as error:
        raise FormatError(file, 0, f"is damaged ({error}); encode the corpus again") from error
    if head.kind not in KINDS or not all(isinstance(n, int) for n in (head.dimension, head.chunk)):
        raise FormatError(file, 0, "is damaged; encode the corpus again")
    return head


def _path(folder: Path, number: int) -> Path:
    return folder / f"{number:06d}.npz"


def _has(folder: Path, number: int, digest: str) -> bool:
    """Tell whether a chunk is there, and refuse one of other passages."""
    path = _path(folder, number)
    if not path.exists():
        return False
    if str(_read(path, "digest")["digest"]) != digest:
        raise DataError(
            f"{path}: was made of other passages; give the corpus it began with, or another folder"
        )
    return True


def _write(folder: Path, head: Head, number: int, vectors: Vectors, digest: str) -> None:
    if not np.isfinite(vectors).all():
        raise DataError(f"chunk {number}: the encoder gave vectors that are no numbers")
    with publish_binary(_path(folder, number)) as stream:
        arrays = {"digest": np.array(digest), **_packed(vectors, head.kind)}
        np.savez(stream, allow_pickle=False, **arrays)


def _packed(vectors: Vectors, kind: str) -> dict[str, Any]:  # savez knows its arrays by no type
    if kind == "float16":
        return {"vectors": vectors.astype(np.float16)}
    low, high = vectors.min(axis=0), vectors.max(axis=0)
    step = np.maximum((high - low) / _STEPS, np.finfo(np.float32).tiny)
    codes = np.rint((vectors - low) / step).clip(0, _STEPS).astype(np.uint8)
    return {"vectors": codes, "low": low, "step": step.astype(np.float32)}


def _unpacked(arrays: dict[str, Any]) -> Vectors:
    found: Vectors = arrays["vectors"].astype(np.float32)
    return found * arrays["step"] + arrays["low"] if "low" in arrays else found


def _read(path: Path, *names: str) -> dict[str, Any]:
    """Read some of a chunk's arrays."""
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in names}
    except _DAMAGE as error:
        raise FormatError(path, 0, "is damaged or missing; remove it and encode again") from error


def _finish(folder: Path, count: int, chunks: int) -> None:
    if _path(folder, chunks).exists():
        raise DataError(f"{folder}: holds vectors of more passages; give the corpus it began with")
    with publish(folder / "done.json") as stream:
        stream.write(json.dumps(sealed({"passages": count})) + "\n")


class StoredVectors:
    """The vectors of a corpus, in its order."""

    def __init__(self, folder: Path, head: Head, count: int) -> None:
        """Know a folder by what its files say; `open_vectors` reads them."""
        self._folder, self.head = folder, head
        self.key, self.dimension, self.count = head.key, head.dimension, count

    def __len__(self) -> int:
        return self.count

    def checked(self, passages: Iterable[Passage]) -> Iterator[Passage]:
        """Pass passages on, refusing others than those the vectors were made of, in their order."""
        count = 0
        for number, part in _chunked(passages, self.head.chunk):
            count += len(part)
            if count > self.count or not _has(self._folder, number, _digest(part)):
                raise DataError(f"{self._folder}: holds vectors of {self.count:,} passages only")
            yield from part
        if count < self.count:
            raise DataError(
                f"{self._folder}: holds vectors of {self.count:,} passages, the corpus {count:,}"
            )

    def blocks(self) -> Iterator[Vectors]:
        """Yield the vectors chunk by chunk, (n, dimension)."""
        for number in range(-(-self.count // self.head.chunk)):
            path = _path(self._folder, number)
            found = _unpacked(_read(path, *_ARRAYS[self.head.kind]))
            wanted = min(self.head.chunk, self.count - number * self.head.chunk)
            if found.shape != (wanted, self.dimension):
                raise FormatError(
                    path, 0, f"holds {found.shape}, not {wanted} vectors; encode again"
                )
            yield found


def open_vectors(folder: str | Path) -> StoredVectors:
    """Open the vectors of a corpus, refusing a folder that is not whole."""
    home = Path(folder)
    if not (home / "head.json").exists():
        raise FormatError(home, 0, "holds no vectors; make them: jpr encode CORPUS --out FOLDER")
    head = _read_head(home / "head.json")
    if not (home / "done.json").exists():
        raise FormatError(home, 0, "its encoding is not finished; give the same command again")
    done = home / "done.json"
    count = unsealed(done, read_object(done)).get("passages")
    if not isinstance(count, int):
        raise FormatError(done, 0, "is damaged; encode the corpus again")
    return StoredVectors(home, head, count)
