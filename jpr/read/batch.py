"""Answers to the questions of a run, written to a file; a killed run resumes where it stopped.

Each line is `{"id", "answers": [{"text", "log_prob", "support": [{"passage", "spans"}]}]}`.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol, TextIO

from jpr.formats.replies import answers_line
from jpr.io.cluster import BatchRunner, run_locally
from jpr.io.resume import write_resumably
from jpr.rerank.batch import BATCH, key_of
from jpr.stages import Progress, Reader
from jpr.types import Answer, Ranking


class KeyedReader(Reader, Protocol):
    """A reader with a name for everything its answers depend on."""

    @property
    def key(self) -> str:
        """Names method, weights and settings: the same key, the same answers."""


def read_to_file(
    reader: KeyedReader,
    rankings: Sequence[Ranking],
    path: Path,
    progress: Progress = lambda _: None,
    run: BatchRunner = run_locally,
) -> None:
    """Write the answers to each question."""

    def records(done: int) -> Iterator[tuple[Ranking, tuple[Answer, ...]]]:
        left = rankings[done:]
        return zip(left, run(_read, reader, left, BATCH), strict=True)

    def write(record: tuple[Ranking, tuple[Answer, ...]], streams: Sequence[TextIO]) -> None:
        streams[0].write(answers_line(*record))

    key = key_of(rankings, len(rankings), reader.key)
    write_resumably([path], key, records, write, progress)


def _read(reader: Reader, rankings: Iterable[Ranking]) -> Iterator[tuple[Answer, ...]]:
    return reader.read_many(rankings)
