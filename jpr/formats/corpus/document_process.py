"""Documents read in another process, with limits: a small file can become any amount of text.

One process reads many files. It ends when memory or time is over, is killed when it sends too much,
and is started again for the next file. It takes and returns JSON lines: it returns lists of a
passage's fields and, at the end of a file, an object that may hold a problem.
"""

import faulthandler
import json
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any, Self

from tokenizers import Tokenizer

from jpr.errors import FormatError, JprError
from jpr.formats.corpus.documents import Cut, Note, read_document
from jpr.stages import Progress
from jpr.types import Passage

# not multiprocessing: it would run a script again that has no `if __name__ == "__main__"`
_START = """
import json, sys
sys.path[:] = json.loads(sys.stdin.buffer.readline())
from jpr.formats.corpus.document_process import serve
serve()
"""


@dataclass(frozen=True, slots=True)
class DocumentLimits:
    """What reading one file may take."""

    memory: int = 3 << 29
    """Bytes above those of the process when it starts, where the system can limit them."""
    seconds: float = 60.0
    """Time to read it and cut it into passages."""
    passages: int = 20_000
    """Passages of it."""
    output: int = 32 << 20
    """Bytes of these passages, with titles and meta."""


LIMITS = DocumentLimits()


class DocumentProcess:
    """A process that reads documents one after the other; the first one starts it."""

    def __init__(self, cut: Cut, limits: DocumentLimits = LIMITS) -> None:
        """Cut documents by a function of a module, or a partial of it with keywords."""
        paths = [path for path in sys.path if isinstance(path, str)]
        self._setup = _json_line(paths) + _json_line([_described(cut), limits.memory])
        self._limits = limits
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def read(self, file: Path, name: str, seconds: float = inf) -> list[Passage]:
        """Return the passages of a file, called `name`; a lower limit of seconds may be given."""
        passages: list[Passage] = []
        end: Mapping[str, Any] = {"is_last": True}
        try:
            for value in self._answer(file, name, min(seconds, self._limits.seconds)):
                if isinstance(value, dict):
                    end = value
                    break
                passages.append(Passage(*value))
                if len(passages) > self._limits.passages:
                    problem = f"is more than {self._limits.passages:,} passages; split it"
                    raise FormatError(file, 0, problem)
        finally:
            if end["is_last"]:
                self._end()
        if end["problem"]:
            raise FormatError(file, end["line"], end["problem"])
        return passages

    def kill(self) -> None:
        """End the file that is being read, with an error; another thread may call it."""
        if (process := self._process) is not None:
            process.kill()

    def _answer(self, file: Path, name: str, seconds: float) -> Iterator[Any]:
        """Send a file to the process and yield what it returns, until that is no whole line."""
        began, left = monotonic(), self._limits.output
        process = self._process
        if process is None or process.poll() is not None:
            process = self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):  # then it returns nothing
            process.stdin.write(_json_line([str(file), name, seconds]))
            process.stdin.flush()
        while (line := process.stdout.readline(left + 1)).endswith(b"\n"):
            left -= len(line)
            yield json.loads(line)
        if len(line) > left:
            problem = f"becomes more than {self._limits.output >> 20} MB of passages; split it"
        elif monotonic() - began >= seconds:
            problem = f"takes more than {seconds:.3g} seconds to read; split it"
        else:
            problem = f"ended the process that read it (status {process.wait()}); convert it"
        raise FormatError(file, 0, problem)

    def _start(self) -> subprocess.Popen[bytes]:
        self._end()
        command, pipe = [sys.executable, "-P", "-c", _START], subprocess.PIPE
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
        assert process.stdin is not None
        self._process = process
        with suppress(BrokenPipeError):
            process.stdin.write(self._setup)
        return process

    def _end(self) -> None:
        """Kill the process, whatever it is doing."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def read_documents(
    files: Mapping[str, Path], cut: Cut, note: Note, progress: Progress
) -> Iterator[tuple[str, list[Passage]]]:
    """Yield each document's name and passages; none for one that cannot be read, which is noted."""
    with DocumentProcess(cut) as process:
        for name, file in files.items():
            passages: list[Passage] = []
            try:
                passages = process.read(file, name)
            except FormatError as error:
                note(f"{error}; left out")
            yield name, passages
            progress(1)


def serve() -> None:
    """Be the process: read the files that are named on the standard input."""
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # what a library may print
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the other process, which ends this
    described, memory = json.loads(requests.readline())
    cut = _made(described)
    used = _used_memory()
    _limit(resource.RLIMIT_DATA, used + memory)
    _limit(resource.RLIMIT_CORE, 0)
    is_last = False
    while not is_last:
        if not (request := requests.readline()):
            return
        path, name, seconds = json.loads(request)
        file = Path(path)
        faulthandler.dump_traceback_later(seconds, exit=True)  # even if no Python code runs
        line, problem = 0, ""
        try:
            for one in read_document(file, name, cut):
                answers.write(_json_line([one.id, one.title, one.text, one.meta]))
        except MemoryError:
            problem = f"takes more than {memory / 2**30:.3g} GB of memory to read; split it"
        except FormatError as error:
            line, problem = error.line, error.problem
        except JprError as error:
            problem = str(error)
        except Exception as error:  # of a library: it ends one file, not all
            problem = f"cannot be read ({type(error).__name__}: {error})"
        is_last = _used_memory() > used + memory // 4  # not given back: the next file lacks it
        answers.write(_json_line({"line": line, "problem": problem, "is_last": is_last}))
        answers.flush()
        faulthandler.cancel_dump_traceback_later()


def _described(cut: Cut) -> dict[str, object]:
    """Return the function as JSON: its module, its name, and its keywords."""
    function, given = (cut.func, cut.keywords) if isinstance(cut, partial) else (cut, {})
    tokenizers = {name: one.to_str() for name, one in given.items() if isinstance(one, Tokenizer)}
    others = {name: one for name, one in given.items() if name not in tokenizers}
    names = {"module": function.__module__, "name": function.__name__}
    return {**names, "tokenizers": tokenizers, "others": others}


def _made(described: Mapping[str, Any]) -> Cut:
    """Return the function that was described."""
    function = getattr(import_module(described["module"]), described["name"])
    tokenizers = {name: Tokenizer.from_str(one) for name, one in described["tokenizers"].items()}
    return partial(function, **tokenizers, **described["others"])


def _limit(what: int, value: int) -> None:
    with suppress(ValueError, OSError):  # the system has no such limit, or a lower one
        resource.setrlimit(what, (value, resource.getrlimit(what)[1]))


def _json_line(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"


def _used_memory() -> int:
    """Return the bytes that the memory limit counts; 0 where the system does not report them."""
    try:
        pages = Path("/proc/self/statm").read_bytes().split()[5]
    except OSError:
        return 0
    return int(pages) * resource.getpagesize()
