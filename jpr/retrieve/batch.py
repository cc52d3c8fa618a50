"""Candidates for many questions, written as a run; a killed run resumes."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from jpr.formats.runs import write_rankings
from jpr.io.cluster import BatchRunner, run_locally
from jpr.io.resume import write_resumably
from jpr.retrieve.retrievers import BATCH
from jpr.stages import Progress, Retriever
from jpr.types import Question, Ranking


def retrieve_to_file(
    retriever: Retriever,
    questions: Sequence[Question],
    path: Path,
    k: int,
    *,
    key: str,
    progress: Progress = lambda _: None,
    run: BatchRunner = run_locally,
) -> None:
    """Write k candidates for each question; `key` identifies the retriever and its index."""
    digest = hashlib.sha256(f"{key}\n{k}\n".encode())
    for question in questions:
        digest.update(repr(question).encode())
        digest.update(repr((question.answers, question.annotations, question.regex)).encode())
    write_resumably(
        [path],
        digest.hexdigest(),
        lambda done: run(partial(_retrieved, k=k), retriever, questions[done:], BATCH),
        lambda ranking, streams: write_rankings([ranking], streams[0]),
        progress,
    )


def _retrieved(retriever: Retriever, questions: Iterable[Question], k: int) -> Iterator[Ranking]:
    return retriever.retrieve_many(questions, k)
