"""Candidates for many questions into a file; a killed run goes on where it was."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from jpr.parts import write_resumably
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
    write_resumably(
        [path],
        _key(questions, k, key),
        lambda done: retriever.retrieve_many(questions[done:], k),
        lambda ranking, streams: write_rankings([ranking], streams[0]),
        progress,
    )


def _key(questions: Sequence[Question], k: int, key: str) -> str:
    """Name a run: two with the same name are the same."""
    digest = hashlib.sha256(f"{key}\n{k}\n".encode())
    for question in questions:
        digest.update(repr(question).encode())
        digest.update(repr((question.answers, question.annotations, question.regex)).encode())
    return digest.hexdigest()
