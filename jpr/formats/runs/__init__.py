"""Runs of any system, predictions, and judgements.

A ranking keeps the order of its file; only TREC runs, whose lines may come in any order, are
sorted. Scores are finite; a passage without one gets minus its rank. A record without a question
id uses the question's text as its id.
"""

from collections.abc import Iterable, Iterator
from math import isfinite
from pathlib import Path
from typing import TextIO

from jpr.errors import DataError
from jpr.formats.format import Formats, RecordKind
from jpr.types import Ranking


def _checked(rankings: Iterable[Ranking]) -> Iterator[Ranking]:
    seen = set()
    for ranking in rankings:
        id = ranking.question.id
        if id in seen:
            raise DataError(f"two rankings for question {id!r}; a run holds one for each question")
        seen.add(id)
        for hit in ranking.hits:
            if not isfinite(hit.score):
                problem = f"question {id!r}: passage {hit.passage.id!r} has score {hit.score}"
                raise DataError(f"{problem}; only finite scores can be written")
        yield ranking


FORMATS = Formats[Ranking](__name__, "json_runs", "trec")
KIND = RecordKind("rankings", FORMATS, lambda ranking: ranking.question.id, _checked)


def load_rankings(path: str | Path, format: str | None = None) -> list[Ranking]:
    """Read all rankings of a file; its format is recognized unless it is named."""
    return list(KIND.read(path, format))


def read_rankings(path: str | Path, format: str | None = None) -> Iterator[Ranking]:
    """Stream the rankings of a file; of JSON lines and arrays, memory holds one at a time."""
    return iter(KIND.read(path, format))


def write_rankings(rankings: Iterable[Ranking], stream: TextIO, format: str = "ctxs") -> None:
    """Write rankings in a format; only "ctxs" loses nothing."""
    KIND.write(rankings, stream, format)
