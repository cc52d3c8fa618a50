"""The answers to the questions of a run into a file; a killed run goes on where it was.

A JSON line per question: `{"id", "answers": [{"text", "log_prob", "support": [{"passage",
"spans"}]}]}`, passages by their ids, from where to where in the passage's text. What
`jpr evaluate --answers` scores.
"""

from collections.abc import Iterable, Iterator, Sequence
from math import isfinite
from pathlib import Path
from typing import Protocol, TextIO

from jpr.formats.gold import json_line
from jpr.io.cluster import BatchRunner, run_locally
from jpr.io.resume import write_resumably
from jpr.rerank.batch import BATCH, key_of
from jpr.stages import Progress, Reader
from jpr.types import Answer, Outcome, Ranking


class KeyedReader(Reader, Protocol):
    """A reader that can say all that its answers depend on."""

    @property
    def key(self) -> str:
        """Names method, weights and settings: the same key, the same answers."""


def read_to_file(
    reader: KeyedReader,
    rankings: Sequence[Ranking],
    path: Path,
    progress: Progress = lambda _: None,
    spread: BatchRunner = run_locally,
) -> None:
    """Write the answers to each question."""

    def write(outcome: Outcome, streams: Sequence[TextIO]) -> None:
        streams[0].write(answers_line(outcome))

    write_resumably(
        [path],
        key_of(rankings, len(rankings), reader.key),
        lambda done: spread(_read, reader, rankings[done:], BATCH),
        write,
        progress,
    )


def _read(reader: Reader, rankings: Iterable[Ranking]) -> Iterator[Outcome]:
    return reader.read_many(rankings)


def answers_line(outcome: Outcome) -> str:
    """Return the answers to a question as a line of JSON."""
    answers = [_answer(answer) for answer in outcome.answers]
    return json_line({"id": outcome.ranking.question.id, "answers": answers})


def _answer(answer: Answer) -> dict[str, object]:
    return {
        "text": answer.text,
        "log_prob": round(answer.log_prob, 4) if isfinite(answer.log_prob) else None,
        "support": [{"passage": one.passage.id, "spans": one.spans} for one in answer.support],
    }
