"""Corpora made of files that somebody sent: in a temporary folder, until newer ones need the room.

Their names are drawn at random, so that only who made one can ask it.
"""

import secrets
import shutil
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from threading import Lock

from tokenizers import Tokenizer

from jpr.errors import DataError, FormatError, MissingExtraError
from jpr.formats.corpus.documents import EXTRA, KINDS, read_document
from jpr.io.locks import temporary_folder
from jpr.retrieve.index import build_index
from jpr.retrieve.retrievers import open_retriever
from jpr.serve.limits import Limits
from jpr.stages import Encoder, Retriever
from jpr.types import Passage

_LONGEST = 60
"""Characters of a file's name that are kept."""


@dataclass(frozen=True, slots=True)
class File:
    """A file that was sent."""

    name: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Corpus:
    """Passages that can be asked."""

    id: str
    retriever: Retriever
    passages: int
    folder: Path


class Corpora:
    """The corpora of a service; threads may share them."""

    def __init__(
        self, limits: Limits, tokenizer: Tokenizer, encoder: Callable[[], Encoder] | None = None
    ) -> None:
        """Cut files by a tokenizer; without an encoder, passages are found by their words alone."""
        self._limits, self._tokenizer, self._encoder = limits, tokenizer, encoder
        self._open = ExitStack()
        self._home = self._open.enter_context(temporary_folder("jpr-corpora-"))
        self._kept: OrderedDict[str, Corpus] = OrderedDict()
        self._lock = Lock()

    def close(self) -> None:
        """Remove all of them."""
        self._open.close()

    def get(self, id: str) -> Corpus | None:
        """Return a corpus, if it is still there."""
        with self._lock:
            if id in self._kept:
                self._kept.move_to_end(id)
            return self._kept.get(id)

    def work(self, jobs: Sequence[Sequence[File]]) -> Iterator[tuple[int, Corpus]]:
        """Make corpora of files."""
        for place, files in enumerate(jobs):
            yield place, self._add(files)

    def _add(self, files: Sequence[File]) -> Corpus:
        folder = Path(tempfile.mkdtemp(dir=self._home))
        try:
            corpus = self._made(files, folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        with self._lock:
            self._kept[corpus.id] = corpus
            old = (
                self._kept.popitem(last=False)[1]
                if len(self._kept) > self._limits.corpora
                else None
            )
        if old:
            shutil.rmtree(old.folder, ignore_errors=True)
        return corpus

    def _made(self, files: Sequence[File], folder: Path) -> Corpus:
        names = _names(files)
        passages: list[Passage] = []
        most = self._limits.corpus_passages
        for name, file in zip(names, files, strict=True):
            passages += self._read(name, file.content, folder)
            if len(passages) > most:
                told = f"the files are more than {most:,} passages"
                raise DataError(f"{told}; send fewer, or index them with jpr index")
        encoder = self._encoder() if self._encoder else None
        build_index(passages, folder / "index", source="files", encoder=encoder)
        retriever = open_retriever(folder / "index", encoder=encoder)
        return Corpus(secrets.token_urlsafe(12), retriever, len(passages), folder)

    def _read(self, name: str, content: bytes, folder: Path) -> list[Passage]:
        """Read a file, which some kinds take their title from the name of."""
        ending = PurePosixPath(name).suffix.lower()
        if ending not in KINDS:
            raise DataError(f"{name}: no file of a known kind; send {' '.join(KINDS)}")
        if not all(map(find_spec, KINDS[ending].needs)):
            raise MissingExtraError(f"to read {ending} files, the service", EXTRA)
        path = folder / name
        path.write_bytes(content)
        try:
            return read_document(path, name, self._tokenizer, self._limits.corpus_passages)
        except FormatError as error:
            raise FormatError(name, error.line, error.problem) from error
        finally:
            path.unlink()


def _names(files: Sequence[File]) -> list[str]:
    """Return what files are called, without folders; the same name again gets a number.

    >>> _names([File("a/notes.txt", b""), File("notes.txt", b""), File("C:\\\\notes.md", b"")])
    ['notes.txt', 'notes (2).txt', 'notes.md']
    """
    names: dict[str, None] = {}
    for file in files:
        given = file.name.encode("utf-8", "replace").decode()
        whole = PurePosixPath(given.replace("\\", "/").replace("\0", ""))
        path = PurePosixPath(whole.name[-_LONGEST:] or "file")
        name, number = str(path), 1
        while name in names:
            number += 1
            name = f"{path.stem} ({number}){path.suffix}"
        names[name] = None
    return list(names)
