"""Output that grows by a line per record, so that a killed run resumes where it stopped.

Lines are appended to `.NAME.part` beside the result. Its first line is a hash of what the records
depend on, and each line begins with a hash of itself: what is damaged is computed again. The result
appears under its name when it is complete.
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

from jpr.errors import ConfigError
from jpr.io.atomic import explain_write_errors, publish
from jpr.io.locks import Lock, locked
from jpr.stages import Progress

T = TypeVar("T")
_HASH = 17  # characters before a line: the beginning of its hash, and a space


def write_resumably(
    paths: Sequence[Path],
    key: str,
    records_from: Callable[[int], Iterable[T]],
    lines_of: Callable[[T], Sequence[str]],
    progress: Progress = lambda _: None,
) -> None:
    """Write files side by side; `lines_of` returns the line of a record for each of them.

    `records_from(done)` returns the records after the first `done`. The partial files of an earlier
    call are used if it had the same `key`, and discarded if not.
    """
    parts, names = _parts(paths), ", ".join(map(str, paths))
    locks: list[Lock] = []
    with ExitStack() as stack:  # a lock ends with the process, in whatever way
        for part, path in zip(parts, paths, strict=True):
            with explain_write_errors(path):
                locks.append(stack.enter_context(locked(part.with_suffix(".lock"))))
        with explain_write_errors(names):
            done = _prepare(parts, f"{hashlib.sha256(key.encode()).hexdigest()}\n".encode())
            opened = [part.open("a", encoding="utf-8", newline="\n") for part in parts]
        streams = [stack.enter_context(stream) for stream in opened]
        progress(done)
        for record in records_from(done):
            with explain_write_errors(names):
                for stream, line in zip(streams, lines_of(record), strict=True):
                    stream.write(_hashed(line.encode()).decode() + line)
                    stream.flush()
            progress(1)
        for part, path in zip(parts, paths, strict=True):
            with part.open(encoding="utf-8", newline="\n") as lines, publish(path) as out:
                lines.readline()
                out.writelines(line[_HASH:] for line in lines)
                for lock in locks:
                    lock.check()
        for part in parts:  # only now: killed before, all can be published again
            part.unlink(missing_ok=True)
        for lock in locks:
            lock.remove()


def _parts(paths: Sequence[Path]) -> list[Path]:
    for path in paths:
        if path.is_dir():
            raise ConfigError(f"{path}: is a folder; name a file to write")
    parts = [path.with_name(f".{path.name}.part") for path in paths]
    if len({part.absolute() for part in parts}) < len(parts):
        raise ConfigError(f"{paths[0]}: two results cannot share a file; name one for each")
    return parts


def _prepare(parts: Sequence[Path], head: bytes) -> int:
    """Truncate the parts to the records that all of them hold; return the number of these."""
    ends = [_ends(part, head) for part in parts]
    done = max(min(map(len, ends)) - 1, 0)
    for part, known in zip(parts, ends, strict=True):
        if known:
            os.truncate(part, known[done])
        else:
            part.write_bytes(head)
    return done


def _ends(part: Path, head: bytes) -> list[int]:
    """Return where the head and each undamaged line end; nothing if the head is another."""
    if not part.exists():
        return []
    with part.open("rb") as stream:
        if stream.readline() != head:
            return []
        ends = [len(head)]
        for line in stream:
            if not line.endswith(b"\n") or line[:_HASH] != _hashed(line[_HASH:]):
                break
            ends.append(ends[-1] + len(line))
    return ends


def _hashed(line: bytes) -> bytes:
    return b"%s " % hashlib.sha256(line).hexdigest()[: _HASH - 1].encode()
