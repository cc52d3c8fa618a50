"""Corpora of uploaded files: in a temporary folder, until newer ones replace them.

Their names are random, so that only whoever uploaded one can ask it.
"""

import secrets
import shutil
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from threading import Event, Lock, Thread
from time import monotonic

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from jpr.errors import DataError, FormatError, JprError, MissingExtraError
from jpr.formats.corpus.document_process import DocumentLimits, DocumentProcess
from jpr.formats.corpus.documents import EXTRA, READERS
from jpr.formats.corpus.split import usual_cut
from jpr.io.locks import temporary_folder
from jpr.retrieve.index import build_index
from jpr.retrieve.retrievers import open_retriever
from jpr.serve.batching import CallerLeftError, IsLeft
from jpr.serve.limits import CannotStoreError
from jpr.stages import Encoder, Retriever, batched
from jpr.types import Passage

Files = Sequence[tuple[str, bytes]]  # names and contents
SECONDS_PER_FILE, SECONDS_PER_UPLOAD = 20.0, 40.0  # for reading; then the index is built
_OUTPUT = 8 << 20  # bytes of a file's passages
_FEW = 16  # passages that are encoded together: about a third of a second's work on one core


@dataclass(frozen=True, slots=True)
class UploadedCorpus:
    """Passages that can be asked."""

    id: str
    retriever: Retriever
    passages: int
    left_out: tuple[str, ...]
    """What is wrong with each file that could not be read."""
    folder: Path


class UploadedCorpora:
    """The uploaded corpora of a service; threads may share them."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        encoder: Callable[[], Encoder] | None,
        max_corpora: int,
        max_passages: int,
    ) -> None:
        """Split files by a tokenizer; without an encoder, retrieval is lexical only."""
        self._cut, self._encoder = usual_cut(tokenizer), encoder
        self._max_corpora, self._max_passages = max_corpora, max_passages
        self._resources = ExitStack()
        self._home = self._resources.enter_context(temporary_folder("jpr-corpora-"))
        self._corpora: OrderedDict[str, UploadedCorpus] = OrderedDict()
        self._lock = Lock()

    def close(self) -> None:
        """Remove all of them."""
        self._resources.close()

    def get(self, id: str) -> UploadedCorpus | None:
        """Return a corpus, if it still exists."""
        with self._lock:
            if id in self._corpora:
                self._corpora.move_to_end(id)
            return self._corpora.get(id)

    def work(self, jobs: Sequence[Files], is_left: IsLeft) -> Iterator[tuple[int, UploadedCorpus]]:
        """Make corpora, unless their callers leave meanwhile."""
        for place, files in enumerate(jobs):
            yield place, self.add(files, partial(is_left, place))

    def add(self, files: Files, is_left: Callable[[], bool] = lambda: False) -> UploadedCorpus:
        """Make a corpus of files."""
        folder = Path(tempfile.mkdtemp(dir=self._home))
        try:
            passages, left_out = self._read(files, folder, is_left)
            encoder = self._encoder() if self._encoder else None
            watched = _WatchedEncoder(encoder, is_left) if encoder else None
            build_index(passages, folder / "index", source="files", encoder=watched)
            retriever = open_retriever(folder / "index", encoder=encoder)
        except BaseException as error:
            shutil.rmtree(folder, ignore_errors=True)
            if isinstance(error, JprError) and str(folder) in str(error):  # not of a client's file
                raise CannotStoreError from error
            raise
        id, count = secrets.token_urlsafe(12), len(passages)
        corpus = UploadedCorpus(id, retriever, count, left_out, folder)
        with self._lock:
            self._corpora[corpus.id] = corpus
            is_full = len(self._corpora) > self._max_corpora
            oldest = self._corpora.popitem(last=False)[1] if is_full else None
        if oldest is not None:
            shutil.rmtree(oldest.folder, ignore_errors=True)
        return corpus

    def _read(
        self, files: Files, folder: Path, is_left: Callable[[], bool]
    ) -> tuple[list[Passage], tuple[str, ...]]:
        """Read files under their own names, from which some kinds take their title."""
        passages: list[Passage] = []
        refused: list[FormatError] = []
        deadline = monotonic() + SECONDS_PER_UPLOAD
        limits = DocumentLimits(
            seconds=SECONDS_PER_FILE, passages=self._max_passages, output=_OUTPUT
        )
        with DocumentProcess(self._cut, limits) as process, _ended_if(is_left, process):
            for name, content in _named(files).items():
                if (seconds := deadline - monotonic()) <= 0:
                    problem = f"the files take more than {SECONDS_PER_UPLOAD:g} seconds to read"
                    raise DataError(f"{problem}; send fewer, or use jpr index")
                path = _stored(folder / name, content)
                try:
                    passages += process.read(path, name, seconds)
                except FormatError as error:
                    _check(is_left)
                    refused.append(FormatError(name, error.line, error.problem))
                path.unlink()
                if len(passages) > self._max_passages:
                    problem = f"the files hold more than {self._max_passages:,} passages"
                    raise DataError(f"{problem}; send fewer, or use jpr index")
        if refused and not passages:
            raise refused[0]
        return passages, tuple(map(str, refused))


class _WatchedEncoder:
    """An encoder that checks whether the caller has left before it reads a few passages."""

    def __init__(self, encoder: Encoder, is_left: Callable[[], bool]) -> None:
        self._encoder, self._is_left = encoder, is_left
        self.key, self.dimension = encoder.key, encoder.dimension
        self.encode_questions = encoder.encode_questions

    def encode_passages(self, passages: Sequence[Passage]) -> NDArray[np.float32]:
        """Return one vector per passage, (n, dimension)."""
        vectors = []
        for few in batched(passages, _FEW):
            _check(self._is_left)
            vectors.append(self._encoder.encode_passages(few))
        return np.concatenate(vectors)


@contextmanager
def _ended_if(is_left: Callable[[], bool], process: DocumentProcess) -> Iterator[None]:
    """End a process that reads files once the caller has left, in the middle of a file, too."""
    done = Event()

    def watch() -> None:
        while not done.wait(0.1):
            if is_left():
                process.kill()

    thread = Thread(target=watch, name="jpr-upload", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _check(is_left: Callable[[], bool]) -> None:
    if is_left():
        raise CallerLeftError


def _stored(path: Path, content: bytes) -> Path:
    """Write a file that can be read."""
    ending = path.suffix.lower()
    if ending not in READERS:
        raise DataError(f"{path.name}: unknown kind of file; send {' '.join(READERS)}")
    if not READERS[ending].is_installed:
        raise MissingExtraError(f"to read {ending} files, the service", EXTRA)
    path.write_bytes(content)
    return path


def _named(files: Files) -> dict[str, bytes]:
    """Return the contents of files by name, without folders; a repeated name gets a number.

    >>> _named([("a/notes.txt", b"1"), ("notes.txt", b"2"), ("C:\\\\notes.md", b"3")])
    {'notes.txt': b'1', 'notes (2).txt': b'2', 'notes.md': b'3'}
    """
    named: dict[str, bytes] = {}
    for given, content in files:
        valid = given.encode("utf-8", "replace").decode()
        whole = PurePosixPath(valid.replace("\\", "/").replace("\0", ""))
        path = PurePosixPath(whole.name[-60:] or "file")
        name, number = str(path), 1
        while name in named:
            number += 1
            name = f"{path.stem} ({number}){path.suffix}"
        named[name] = content
    return named
