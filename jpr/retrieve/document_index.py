"""The index of a folder of documents: made when it is first needed, then kept up with the files.

HOME/KEY/index/…       the index; KEY names the folder and the encoder
HOME/KEY/files.json    the files that are in it: sizes, times, hashes, numbers of passages
HOME/KEY/lock          held while it is looked at or changed

A file is read again where its size or times have changed and then its hash. What `files.json` says
holds for one state of the index, which it names; where the two disagree, because a process was
killed between them, all is made anew. New passages go in before old ones go, so that nobody who
searches meanwhile misses a file.
"""

import hashlib
import json
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from jpr.errors import FormatError
from jpr.formats.corpus.documents import find_documents, nothing_read, passage_ids, read_document
from jpr.formats.corpus.split import load_tokenizer
from jpr.io.atomic import explain_write_errors, publish
from jpr.io.checksums import sealed, sha256, unsealed
from jpr.io.json_files import read_object
from jpr.io.locks import locked
from jpr.retrieve.index import (
    Index,
    add_to_index,
    build_index,
    encoded_by,
    remove_from_index,
)
from jpr.retrieve.index_manifest import read_manifest, verified_manifest
from jpr.retrieve.versions import open_current
from jpr.stages import Encoder, Progress
from jpr.types import Passage

ProgressBar = Callable[[str, int | None], AbstractContextManager[Progress]]
"""Shows how far some work has come: what it is, of how many, if that is known."""
_FORMAT = 1
_TICK = 2_000_000_000
"""Nanoseconds between two times that a file system tells apart, at most: FAT's."""
_UNKNOWN = (-1, -1)
_GROWN = 2
"""An index that is so many times what it was, or has so many times as many rows as passages, is
made anew: its vectors are rounded to the range that the first ones had, and removed ones stay."""


def no_progress_bar(_: str, __: int | None) -> AbstractContextManager[Progress]:
    """Show nothing."""
    return nullcontext(lambda _: None)


@dataclass(frozen=True, slots=True)
class _File:
    """A file as it was when it was read."""

    size: int
    times: tuple[int, int]
    """When its text was changed, in nanoseconds, and when anything of it, which nobody can set."""
    sha256: str
    passages: int
    """How many of its passages are in the index; 0 where it could not be read."""

    def is_like(self, other: "_File") -> bool:
        """Tell whether size and times are the same."""
        return (self.size, self.times) == (other.size, other.times)


Files = Mapping[str, _File]


def index_documents(
    folder: Path,
    home: Path,
    encoder: Encoder,
    tokenizer: Path,
    watched: ProgressBar = no_progress_bar,
) -> Path:
    """Bring the index of a folder up to date, and return where it is.

    A file that cannot be read is left out with a warning.
    """
    found = find_documents(folder)
    for problem in found.problems:
        warnings.warn(f"{problem}; left out", stacklevel=2)
    name = f"{folder.resolve()}\n{encoder.key}\n{_FORMAT}"
    own = home / hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:24]
    with exclusive_folder(own):
        _Update(own, folder, encoder, tokenizer, watched).to(found.files)
    return own / "index"


@contextmanager
def exclusive_folder(folder: Path) -> Iterator[None]:
    """Make a folder, and be the only process that works in it; wait for another that does."""
    with explain_write_errors(folder, remedy="; name another folder in JPR_CACHE"):
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder / "lock", wait=True):
            yield


@dataclass(frozen=True, slots=True)
class _Update:
    """What it takes to bring an index up to date."""

    home: Path
    folder: Path
    encoder: Encoder
    tokenizer: Path
    watched: ProgressBar

    @property
    def index(self) -> Path:
        """Where the index is."""
        return self.home / "index"

    def to(self, paths: Mapping[str, Path]) -> None:
        """Let the index hold what is in these files."""
        known = self._known()
        files = {name: _seen(path, known.get(name)) for name, path in paths.items()}
        kept = {
            name
            for name, file in files.items()
            if name in known and file.sha256 == known[name].sha256
        }
        changed = {name: paths[name] for name in files if name not in kept}
        if known and files == known:
            return
        passages = self._read(changed)
        now = {
            name: replace(
                file, passages=known[name].passages if name in kept else len(passages[name])
            )
            for name, file in files.items()
        }
        if not any(file.passages for file in now.values()):
            raise nothing_read(self.folder)
        self._change(known, now, [one for some in passages.values() for one in some])

    def _read(self, paths: Mapping[str, Path]) -> dict[str, list[Passage]]:
        """Read files; warn of those that cannot be read, which have no passages."""
        passages: dict[str, list[Passage]] = {}
        if not paths:
            return passages
        tokenizer = load_tokenizer(self.tokenizer)
        with self.watched("reading files", len(paths)) as progress:
            for name, path in paths.items():
                try:
                    passages[name] = read_document(path, name, tokenizer)
                except FormatError as error:
                    warnings.warn(f"{error}; left out", stacklevel=5)
                    passages[name] = []
                progress(1)
        return passages

    def _change(self, known: Files, now: Files, new: Sequence[Passage]) -> None:
        """Bring the index from one state of the files to another."""
        before, after = _ids(known), _ids(now)
        vectors = encoded_by(
            self.encoder, self.index, watched=partial(self.watched, "encoding passages")
        )
        if not known or self._is_worn(len(after)):
            added = {passage.id for passage in new}
            old = (one for one in Index(self.index).store if one.id in after) if known else ()
            whole = [*(one for one in old if one.id not in added), *new]
            build_index(whole, self.index, source=str(self.folder), vectors=vectors)
        else:
            if new:
                add_to_index(
                    new, self.index, source=str(self.folder), replacing=True, vectors=vectors
                )
                self._note(_between(known, now))
            if stale := [id for id in before if id not in after]:
                remove_from_index(stale, self.index)
        self._note(now)

    def _is_worn(self, passages: int) -> bool:
        made = open_current(self.index, read_manifest)
        return passages > _GROWN * made.history[0].added or made.rows > _GROWN * passages

    def _known(self) -> Files:
        """Return the files that the index holds; none where it is not as `files.json` says."""
        try:
            file = self.home / "files.json"
            record = unsealed(file, read_object(file))
            files = record["files"]
            contents = open_current(self.index, verified_manifest)  # a damaged one is made anew
            if record["index"] == contents.key and isinstance(files, dict):
                return {name: _noted(*values) for name, values in files.items()}
        except (FormatError, KeyError, TypeError):
            pass  # it is not there yet, or damaged
        return {}

    def _key(self) -> str:
        return open_current(self.index, read_manifest).key

    def _note(self, files: Files) -> None:
        record = {
            "folder": ascii(str(self.folder.resolve())),
            "index": self._key(),
            "files": {name: [*asdict(file).values()] for name, file in files.items()},
        }
        with publish(self.home / "files.json") as stream:
            json.dump(sealed(record), stream)


def _seen(path: Path, known: _File | None) -> _File:
    """Look at a file; its hash is taken only where size or times say that it may be another.

    One that was changed just now may change once more before the clock ticks: its times are not
    noted, so that the next look takes the hash again. So it is with times in the future.
    """
    now = time.time_ns()
    try:
        status = path.stat()
        times = status.st_mtime_ns, status.st_ctime_ns
        file = _File(status.st_size, times, "", 0)
        if known and known.is_like(file):
            return known
        if max(times) > now - _TICK:
            file = replace(file, times=_UNKNOWN)
        return replace(file, sha256=sha256(path), passages=known.passages if known else 0)
    except OSError:  # it is gone, or not for us: reading it will tell
        return _File(0, _UNKNOWN, "", 0)


def _noted(size: int, times: list[int], sha256: str, passages: int) -> _File:
    """Return a file as `files.json` has it."""
    mtime, ctime = times
    return _File(size, (mtime, ctime), sha256, passages)


def _ids(files: Files) -> dict[str, None]:
    """Return the ids of all passages of some files."""
    every = (id for name, file in files.items() for id in passage_ids(name, file.passages))
    return dict.fromkeys(every)


def _between(known: Files, now: Files) -> Files:
    """Return the files of an index that holds what both states have.

    Those with passages too many are such as to be read again, should nobody come to remove these.
    """
    files = {**known, **now}
    for name, file in known.items():
        if name in now and file.passages > now[name].passages:
            files[name] = _File(-1, _UNKNOWN, "?", file.passages)
    return files
