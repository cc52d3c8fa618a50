"""Candidates for many questions into a file, so that a killed run goes on where it was.

Rankings are appended to a file beside the result, `.NAME.part`, whose first line says what they are
for; the result appears under its name when all are there.
"""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from jpr.errors import ConfigError
from jpr.files import publish
from jpr.runs import write_rankings
from jpr.stages import Progress, Retriever
from jpr.types import Question


def retrieve_to_file(
    retriever: Retriever,
    questions: Sequence[Question],
    path: Path,
    k: int,
    *,
    key: str,
    progress: Progress = lambda _: None,
) -> None:
    """Write each question's k candidates; `key` names what they come from."""
    part = path.with_name(f".{path.name}.part")
    head = _head(questions, k, key)
    done = _done(part, head)
    progress(done)
    try:
        with part.open("a" if done or part.exists() else "w", encoding="utf-8") as stream:
            if not stream.tell():
                stream.write(head)
            for ranking in retriever.retrieve_many(questions[done:], k):
                write_rankings([ranking], stream)
                stream.flush()
                progress(1)
        _publish(part, path)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror or error}") from error


def _head(questions: Sequence[Question], k: int, key: str) -> str:
    """Return the first line of a part: two runs with the same one are the same run."""
    digest = hashlib.sha256(f"{key}\n{k}\n".encode())
    for question in questions:
        digest.update(repr(question.id).encode() + repr(question.text).encode())
        digest.update(repr((question.answers, question.annotations, question.regex)).encode())
    return f"{digest.hexdigest()}\n"


def _done(part: Path, head: str) -> int:
    """Count the whole rankings of a part that is ours; remove what is not, and a torn last line."""
    try:
        with part.open("rb") as stream:
            if stream.readline() != head.encode():
                part.unlink()
                return 0
            lines, end = 0, stream.tell()
            for line in stream:
                if line.endswith(b"\n"):
                    lines, end = lines + 1, end + len(line)
        os.truncate(part, end)
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise ConfigError(f"{part}: cannot be read: {error.strerror or error}") from error
    return lines


def _publish(part: Path, path: Path) -> None:
    with part.open(encoding="utf-8") as stream, publish(path) as out:
        stream.readline()
        _copy(stream, out)
    part.unlink()


def _copy(source: TextIO, target: TextIO) -> None:
    while block := source.read(1 << 20):
        target.write(block)
