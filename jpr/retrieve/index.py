"""An index on disk: built beside the old one, published whole, checked when it is opened.

A folder holds numbered versions and `CURRENT`, which names the one in use and is replaced in one
step. Whatever happens while a version is being built, the one before stays whole and in use.

    DIR/CURRENT               "v3"
    DIR/v3/manifest.json      what is inside: counts, sizes, analyser, where it came from
    DIR/v3/store/…            the passages
    DIR/v3/bm25/…             the words
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from jpr.corpus.store import PassageStore, write_store
from jpr.errors import ConfigError, DataError, FormatError
from jpr.files import publish
from jpr.retrieve.bm25 import Bm25, indexed
from jpr.stages import Progress
from jpr.types import Hit, Passage, Question, Ranking

_FORMAT = 1
_VERSION = re.compile("v[0-9]{1,9}")


def build_index(
    passages: Iterable[Passage], folder: Path, *, source: str, progress: Progress = lambda _: None
) -> int:
    """Index a corpus into a folder and return the number of passages.

    An index that is already there stays in use until the new one is whole, and is then removed.
    """
    with _only_writer(folder):
        current = _current(folder)
        number = int(current[1:]) + 1 if current else 1
        _clean(folder, keep=current)
        version = folder / f"v{number}"
        try:
            n = _build(passages, version, source, progress)
        except BaseException:
            shutil.rmtree(version, ignore_errors=True)
            raise
        with publish(folder / "CURRENT") as stream:
            stream.write(f"{version.name}\n")
        _clean(folder, keep=version.name)
    return n


def _build(passages: Iterable[Passage], version: Path, source: str, progress: Progress) -> int:
    """Write a whole version to the disk."""
    (version / "store").mkdir(parents=True)
    (version / "bm25").mkdir()
    digest = hashlib.sha256()
    watched = _watched(passages, digest.update, progress)
    n = write_store(indexed(watched, version / "bm25"), version / "store")
    manifest = {
        "format": _FORMAT,
        "passages": n,
        "source": source,
        "corpus_sha256": digest.hexdigest(),
        "sizes": _sizes(version),
    }
    with publish(version / "manifest.json") as stream:
        stream.write(json.dumps(manifest, indent=1) + "\n")
    _sync(version)
    return n


def _watched(
    passages: Iterable[Passage], digest: Callable[[bytes], None], progress: Progress
) -> Iterator[Passage]:
    for passage in passages:
        if not passage.id:
            raise DataError("a passage has an empty id; give every passage an id")
        line = f"{passage.id}\t{passage.title}\t{passage.text}\n"
        digest(line.encode("utf-8", "surrogatepass"))
        yield passage
        progress(1)


@contextmanager
def _only_writer(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; it goes with the process, however that ends."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
    except BlockingIOError as error:
        raise ConfigError(
            f"{folder}: another process is writing this index; wait for it"
        ) from error
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be written: {error.strerror or error}") from error


def _current(folder: Path) -> str | None:
    try:
        name = (folder / "CURRENT").read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FormatError(folder, 0, f"cannot be read: {error.strerror}") from error
    if not _VERSION.fullmatch(name):
        raise FormatError(folder / "CURRENT", 1, "names no version; build the index again")
    return name


def _clean(folder: Path, keep: str | None) -> None:
    """Remove versions that are not in use: old ones, and what a killed build left."""
    for path in folder.iterdir():
        if _VERSION.fullmatch(path.name) and path.name != keep:
            shutil.rmtree(path)


def _sizes(version: Path) -> dict[str, int]:
    files = (path for part in ("store", "bm25") for path in sorted((version / part).iterdir()))
    kept = (path for path in files if not path.name.endswith(".lock"))
    return {f"{path.parent.name}/{path.name}": path.stat().st_size for path in kept}


def _sync(version: Path) -> None:
    """Make sure that all of it is on the disk before anything points to it."""
    for path in (*version.rglob("*"), version):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


class Bm25Retriever:
    """BM25 over an index on disk; threads may share it."""

    def __init__(self, folder: str | Path) -> None:
        """Open the version in use, refusing one that is not whole."""
        home = Path(folder)
        name = _current(home)
        if name is None:
            raise FormatError(home, 0, "holds no index; make one with: jpr index CORPUS --out DIR")
        version = home / name
        self.manifest = _checked_manifest(version)
        self.key = f"bm25 {self.manifest['corpus_sha256']}"
        self.store = PassageStore(version / "store")
        self._bm25 = Bm25(version / "bm25")
        if not len(self.store) == len(self._bm25) == self.manifest["passages"]:
            raise FormatError(
                home, 0, "its parts hold different numbers of passages; build it again"
            )

    def retrieve(self, question: Question, k: int) -> Ranking:
        """Return the k best passages for a question; fewer where no more hold a word of it."""
        hits = self._bm25.search(question.text, k)
        return Ranking(question, tuple(Hit(self.store[row], score) for row, score in hits))

    def retrieve_many(self, questions: Iterable[Question], k: int) -> Iterator[Ranking]:
        """Do the same for many questions, in their order."""
        return (self.retrieve(question, k) for question in questions)


def _checked_manifest(version: Path) -> dict[str, object]:
    """Read what the index should hold and compare the sizes of its files."""
    try:
        text = (version / "manifest.json").read_text(encoding="utf-8")
        manifest: dict[str, object] = json.loads(text)
        known, sizes = manifest["format"], manifest["sizes"]
        same = isinstance(sizes, dict) and sizes == _sizes(version)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FormatError(version, 0, f"is no whole index ({error}); build it again") from error
    if known != _FORMAT:
        raise FormatError(version, 0, f"is of format {known}, this program reads {_FORMAT}")
    if not same:
        raise FormatError(
            version, 0, "a file is missing or has another size; build or copy it again"
        )
    return manifest
