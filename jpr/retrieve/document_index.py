"""The index of a folder of documents: built when first needed, then kept up to date with the files.

HOME/KEY/index/…       the index; KEY is a hash of the folder and the encoder
HOME/KEY/files.json    the indexed files: sizes, times, hashes, numbers of passages
HOME/KEY/lock          held while the index is checked or changed

A file is read again if its size or times have changed and then its hash. `files.json` is valid for
one state of the index, which it names; if they disagree, because a process was killed between the
two writes, everything is indexed again. An update is one new version of the index, so that a
concurrent search misses no file.
"""

import hashlib
import json
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from jpr.encode.tokenizer import read_tokenizer
from jpr.encode.vectors import StoredVectors, vectors_for
from jpr.errors import FormatError
from jpr.formats.corpus import documents
from jpr.formats.corpus.document_process import read_documents
from jpr.formats.corpus.split import usual_cut
from jpr.io.atomic import explain_write_errors, publish
from jpr.io.checksums import sealed, sha256, unsealed
from jpr.io.json_files import read_object
from jpr.io.locks import private_folder
from jpr.retrieve.index import Index, build_index, change_index, encoded_by
from jpr.retrieve.index_manifest import PARTS, IndexManifest, large_files, read_manifest
from jpr.retrieve.versions import open_current
from jpr.stages import Encoder, Progress
from jpr.types import Passage

ProgressBar = Callable[[str, int | None], AbstractContextManager[Progress]]
"""Shows the progress of some work: its name, and the total if known."""
_TICK = 2_000_000_000
"""Nanoseconds between two timestamps that a file system can distinguish, at most: FAT's."""
_UNKNOWN = (-1, -1)
_GROWTH = 2
"""An index this many times its size at the build, or with this many rows per passage, is built
again: vectors are quantized to the range of the first ones, and removed ones remain."""


def no_progress_bar(_: str, __: int | None) -> AbstractContextManager[Progress]:
    """Show nothing."""
    return nullcontext(lambda _: None)


@dataclass(frozen=True, slots=True)
class _File:
    """A file as it was when it was read."""

    size: int
    times: tuple[int, int]  # mtime and ctime in nanoseconds; no program can set the latter
    sha256: str
    passages: int  # its passages in the index; 0 if it could not be read


Files = Mapping[str, _File]


def index_documents(
    folder: Path,
    home: Path,
    encoder: Encoder,
    tokenizer: Path,
    progress_bar: ProgressBar = no_progress_bar,
) -> Path:
    """Bring the index of a folder up to date, and return the folder of the index.

    A file that cannot be read is skipped with a warning.
    """
    found = documents.find_documents(folder, partial(warnings.warn, stacklevel=5))
    name = f"{folder.resolve()}\n{encoder.key}\n1"  # 1: the format
    own = home / hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:24]
    with exclusive_folder(own):
        _Update(own / "index", folder, encoder, tokenizer, progress_bar).run(found)
    return own / "index"


@contextmanager
def exclusive_folder(folder: Path) -> Iterator[None]:
    """Create a folder that only this user can read, and wait for its lock."""
    remedy = "; name another folder in JPR_CACHE"
    with explain_write_errors(folder, remedy=remedy), private_folder(folder):
        yield


@dataclass(frozen=True, slots=True)
class _Update:
    index: Path
    folder: Path
    encoder: Encoder
    tokenizer: Path
    progress_bar: ProgressBar

    def run(self, paths: Mapping[str, Path]) -> None:
        known = self._read_notes()
        files = {name: _look(path, known.get(name)) for name, path in paths.items()}
        if known and files == known:
            return
        same = {n for n, file in files.items() if n in known and file.sha256 == known[n].sha256}
        read = self._read({name: path for name, path in paths.items() if name not in same})
        files |= {n: replace(files[n], passages=len(passages)) for n, passages in read.items()}
        if not any(file.passages for file in files.values()):
            raise documents.nothing_read(self.folder)
        self._change(known, files, [passage for some in read.values() for passage in some])

    def _read(self, paths: Mapping[str, Path]) -> dict[str, list[Passage]]:
        if not paths:
            return {}
        cut = usual_cut(read_tokenizer(self.tokenizer))
        with self.progress_bar("reading files", len(paths)) as progress:
            warn = partial(warnings.warn, stacklevel=6)
            return dict(read_documents(paths, cut, warn, progress))

    def _change(self, known: Files, now: Files, new: Sequence[Passage]) -> None:
        after, source = set(_ids(now)), str(self.folder)
        stale = [id for id in _ids(known) if id not in after]
        vectors = encoded_by(self.encoder, self.index, self._encode)
        old = Index(self.index) if known else None
        built, rows = (old.manifest.history[0].added, old.manifest.rows) if old else (0, 0)
        if len(after) > _GROWTH * built or rows > _GROWTH * len(after):
            kept = after - {passage.id for passage in new}
            passages = [one for one in old.store if one.id in kept] if old else []
            build_index([*passages, *new], self.index, source=source, vectors=vectors)
        elif new or stale:
            with change_index(self.index) as writer:
                for passage in new:
                    writer.add(passage, replacing=True)
                for id in stale:
                    writer.remove(id)
                writer.finish("update", source, vectors if new else None)
        self._write_notes(now)

    def _encode(
        self, passages: Iterable[Passage], n: int, encoder: Encoder, into: Path
    ) -> StoredVectors:
        with self.progress_bar("encoding passages", n) as progress:
            return vectors_for(passages, encoder, into, progress=progress)

    def _read_notes(self) -> Files:
        """Return the indexed files; none if `files.json` is missing, damaged or outdated."""
        try:
            file = self.index.with_name("files.json")
            record = unsealed(file, read_object(file))
            files = record["files"]
            manifest = open_current(self.index, _whole)
            if record["index"] == manifest.key and isinstance(files, dict):
                return {
                    name: _File(size, (mtime, ctime), digest, passages)
                    for name, (size, (mtime, ctime), digest, passages) in files.items()
                }
        except (FormatError, KeyError, TypeError, ValueError):
            pass
        return {}

    def _write_notes(self, files: Files) -> None:
        record = {
            "folder": ascii(str(self.folder.resolve())),
            "index": open_current(self.index, read_manifest).key,
            "files": {name: [*asdict(file).values()] for name, file in files.items()},
        }
        with publish(self.index.with_name("files.json")) as stream:
            json.dump(sealed(record), stream)


def _whole(version: Path) -> IndexManifest:
    """Return the manifest of a version after a check of all its files."""
    manifest = read_manifest(version)
    large = large_files(version, manifest)
    for part in PARTS:
        large.check(part)
    return manifest


def _look(path: Path, known: _File | None) -> _File:
    """Describe a file; hash it only if its size or times differ from what is known.

    A file that was changed just now may change again before the clock ticks: its times are not
    noted, so that the next update hashes it again. The same goes for times in the future.
    """
    now = time.time_ns()
    try:
        status = path.stat()
        times = status.st_mtime_ns, status.st_ctime_ns
        if known and (known.size, known.times) == (status.st_size, times):
            return known
        noted = _UNKNOWN if max(times) > now - _TICK else times
        return _File(status.st_size, noted, sha256(path), known.passages if known else 0)
    except OSError:  # missing or not readable: reading it will say so
        return _File(0, _UNKNOWN, "", 0)


def _ids(files: Files) -> Iterator[str]:
    return (id for name, file in files.items() for id in documents.passage_ids(name, file.passages))
