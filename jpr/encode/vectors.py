"""The vectors of a corpus on disk, written chunk by chunk, so that a killed run can resume.

    FOLDER/head.json          encoder key, dimension, precision ("kind"), passages per chunk
    FOLDER/000000.npz         vectors of the first chunk and a digest of its passages, …
    FOLDER/done.json          number of passages; written last

Files are published atomically and have checksums. The precision is `float16`, or `sq8`: one byte
per value, in steps of 1/255 of a dimension's range within the chunk.
"""

import hashlib
import json
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from jpr.encode.encoder import Vectors
from jpr.errors import ConfigError, DataError, FormatError
from jpr.io.atomic import publish_binary
from jpr.io.checksums import sealed, unsealed
from jpr.io.cluster import BatchRunner, run_locally
from jpr.io.json_files import read_object, write_json
from jpr.io.settings import read_sealed, reject
from jpr.stages import Encoder, Progress, batched
from jpr.types import Passage

_ARRAYS = {"float16": ("vectors",), "sq8": ("vectors", "low", "step")}
PRECISIONS = tuple(_ARRAYS)
_FORMAT = 1
_STEPS = 255
_CHUNK = 1024  # passages per chunk: about a minute's work on one core
_DAMAGE = (OSError, ValueError, KeyError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)
"""Errors of numpy on a damaged archive, which may look encrypted, for instance."""

Chunk = tuple[int, list[Passage]]  # its number and its passages


@dataclass(frozen=True, slots=True)
class VectorsHead:
    """`head.json`: what all chunks of a folder have in common."""

    key: str
    dimension: int
    kind: str
    chunk: int
    format: int = _FORMAT

    def __post_init__(self) -> None:
        if self.kind not in PRECISIONS:
            reject([f"precision {self.kind!r}: choose one of {', '.join(PRECISIONS)}"])


def vectors_for(
    passages: Iterable[Passage],
    encoder: Encoder,
    folder: Path,
    *,
    precision: str | None = None,
    chunk: int | None = None,
    run: BatchRunner = run_locally,
    progress: Progress = lambda _: None,
) -> "StoredVectors":
    """Return the vectors of a corpus in a folder, after encoding what is missing there.

    Chunks of an earlier run are kept; one of other passages or of another encoder is an error. By
    default, precision and chunk size are those of the folder, or float16 and 1,024 in a new one.
    """
    head = _begin(folder, encoder, precision, chunk)
    count = 0
    digests: list[str] = []

    def missing() -> Iterator[Chunk]:
        nonlocal count
        for number, part in enumerate(batched(passages, head.chunk)):
            count += len(part)
            digests.append(_digest(part))
            if _has_chunk(folder, number, digests[number]):
                progress(len(part))
            else:
                yield number, part

    for number, vectors in run(_encode, encoder, missing(), 1):
        if not np.isfinite(vectors).all():
            raise DataError(f"chunk {number}: the encoder returned values that are not finite")
        arrays = {"digest": np.array(digests[number]), **_quantize(vectors, head.kind)}
        with publish_binary(_path(folder, number)) as out:
            np.savez(out, allow_pickle=False, **arrays)
        progress(len(vectors))
    if not count:
        raise DataError("the corpus has no passages; was its download cut short?")
    if _path(folder, len(digests)).exists():
        raise DataError(f"{folder}: holds vectors of more passages; is this the same corpus?")
    write_json(folder / "done.json", sealed({"passages": count}))
    return StoredVectors(folder, head, count)


def _encode(encoder: Encoder, chunks: Iterable[Chunk]) -> Iterator[tuple[int, Vectors]]:
    return ((number, encoder.encode_passages(passages)) for number, passages in chunks)


def _digest(passages: Iterable[Passage]) -> str:
    digest = hashlib.sha256()
    for passage in passages:
        record = json.dumps([passage.id, passage.title, passage.text])
        digest.update(f"{record}\n".encode())
    return digest.hexdigest()


def _begin(folder: Path, encoder: Encoder, precision: str | None, chunk: int | None) -> VectorsHead:
    """Write the head of a new folder, or check that of an earlier run."""
    file = folder / "head.json"
    found = read_sealed(VectorsHead, file, _FORMAT) if file.exists() else None
    kind = precision or (found.kind if found else PRECISIONS[0])
    size = chunk or (found.chunk if found else _CHUNK)
    head = VectorsHead(encoder.key, encoder.dimension, kind, size)
    if found is not None:
        old = asdict(found)
        for name, new in asdict(head).items():
            if old[name] != new:
                what = f"{name} {old[name]} instead of {new}"
                raise ConfigError(f"{folder}: holds vectors with {what}; choose another folder")
        return head
    if folder.is_dir() and any(path.name[0] != "." for path in folder.iterdir()):
        raise ConfigError(f"{folder}: holds other files than vectors; choose another folder")
    write_json(file, sealed(asdict(head)))
    return head


def _path(folder: Path, number: int) -> Path:
    return folder / f"{number:06d}.npz"


def _has_chunk(folder: Path, number: int, digest: str) -> bool:
    """Return whether a chunk exists; one of other passages is an error."""
    path = _path(folder, number)
    if not path.exists():
        return False
    if str(_read(path, "digest")["digest"]) != digest:
        raise DataError(f"{path}: vectors of other passages; use the same corpus or another folder")
    return True


def _quantize(vectors: Vectors, precision: str) -> dict[str, Any]:  # savez does not type its arrays
    if precision == "float16":
        return {"vectors": vectors.astype(np.float16)}
    low, high = vectors.min(axis=0), vectors.max(axis=0)
    step = np.maximum((high - low) / _STEPS, np.finfo(np.float32).tiny)
    codes = np.rint((vectors - low) / step).clip(0, _STEPS).astype(np.uint8)
    return {"vectors": codes, "low": low, "step": step.astype(np.float32)}


def _read(path: Path, *names: str) -> dict[str, Any]:
    """Read some of a chunk's arrays."""
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in names}
    except _DAMAGE as error:
        raise FormatError(path, 0, "damaged or missing; remove it and encode again") from error


class StoredVectors:
    """The vectors of a corpus, in its order."""

    def __init__(self, folder: Path, head: VectorsHead, count: int) -> None:
        self._folder, self.head = folder, head
        self.key, self.dimension, self.count = head.key, head.dimension, count

    def __len__(self) -> int:
        return self.count

    def checked(self, passages: Iterable[Passage]) -> Iterator[Passage]:
        """Yield the passages; an error if they are not those of the vectors, in their order."""
        count = 0
        for number, part in enumerate(batched(passages, self.head.chunk)):
            count += len(part)
            if count > self.count or not _has_chunk(self._folder, number, _digest(part)):
                raise DataError(f"{self._folder}: holds vectors of {self.count:,} passages only")
            yield from part
        if count < self.count:
            problem = f"holds vectors of {self.count:,} passages, the corpus has {count:,}"
            raise DataError(f"{self._folder}: {problem}")

    def blocks(self) -> Iterator[Vectors]:
        """Yield the vectors chunk by chunk, (n, dimension)."""
        for number, start in enumerate(range(0, self.count, self.head.chunk)):
            path = _path(self._folder, number)
            arrays = _read(path, *_ARRAYS[self.head.kind])
            vectors: Vectors = arrays["vectors"].astype(np.float32)
            if "low" in arrays:
                vectors = vectors * arrays["step"] + arrays["low"]
            expected = min(self.head.chunk, self.count - start)
            if vectors.shape != (expected, self.dimension):
                problem = f"has shape {vectors.shape} instead of {expected} vectors; encode again"
                raise FormatError(path, 0, problem)
            yield vectors


def open_vectors(folder: str | Path) -> StoredVectors:
    """Open the vectors of a corpus; an incomplete folder is an error."""
    home = Path(folder)
    first, last = home / "head.json", home / "done.json"
    if not first.exists():
        raise FormatError(home, 0, "no vectors; make them with: jpr index CORPUS --vectors FOLDER")
    head = read_sealed(VectorsHead, first, _FORMAT)
    if not last.exists():
        raise FormatError(home, 0, "encoding is not complete; run the same command again to resume")
    count = unsealed(last, read_object(last)).get("passages")
    if not isinstance(count, int):
        raise FormatError(last, 0, "damaged; encode the corpus again")
    return StoredVectors(home, head, count)
