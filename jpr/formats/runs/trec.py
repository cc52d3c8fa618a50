"""TREC runs: `question Q0 passage rank score tag`, separated by white space; ids, no texts.

Reading orders the passages of a question by score, highest first, as `trec_eval` does; equal
scores stand in the order of the rank column, which counts for nothing else. So a file whose ranks
contradict its scores is ranked by its scores. The lines of a question may be anywhere in the file.

Writing keeps the order for every tool: `trec_eval` reads scores in single precision and orders
equal ones by id, so a ranking whose scores do not fall strictly in single precision is written
with the scores n, n-1, …, 1 instead. A ranking without passages leaves no line.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TextIO

import numpy as np

from jpr.errors import DataError, FormatError
from jpr.formats.format import Format, Head, Located
from jpr.formats.runs.align import check_unique_passages
from jpr.formats.runs.columns import columns_of, first_columns, is_whole, is_word
from jpr.formats.runs.fields import number, writable
from jpr.io.text_files import read_lines
from jpr.types import Hit, Passage, Question, Ranking

_COLUMNS = "question Q0 passage rank score tag"
_Places = dict[str, tuple[float, int]]
"""Passage id -> (minus its score, its rank): sorted, the passages stand in order."""


def _sniff(head: Head) -> bool:
    columns = first_columns(head)
    return len(columns) == 6 and columns[1] in ("Q0", "q0", "0") and is_whole(columns[3])


def _read(path: Path) -> Located[Ranking]:
    run: dict[str, _Places] = {}
    first: dict[str, int] = {}
    for line, text in read_lines(path):
        if columns := columns_of(text):
            question = columns[0]
            _place(columns, run.setdefault(question, {}), path, line)
            first.setdefault(question, line)
    passages: dict[str, Passage] = {}  # the same passage of many questions is one object
    for question, places in run.items():
        hits = (
            Hit(passages.setdefault(id, Passage(id, "", "")), -places[id][0])
            for id in sorted(places, key=places.__getitem__)
        )
        yield first[question], Ranking(Question(question, ""), tuple(hits))


def _place(columns: Sequence[str], places: _Places, path: Path, line: int) -> None:
    """Note where a line puts its passage."""
    if len(columns) != 6:
        raise FormatError(path, line, f"{len(columns)} columns instead of 6: {_COLUMNS}")
    question, _, passage, rank, score, _ = columns
    if not is_whole(rank):
        raise FormatError(path, line, f"the rank should be a whole number, not {rank!r:.40}")
    if passage in places:
        raise FormatError(
            path,
            line,
            f"passage {passage!r} comes twice for question {question!r}; remove the repetition",
        )
    places[passage] = (-number(score, path, line), int(rank))


def _write(rankings: Iterable[Ranking], stream: TextIO) -> None:
    for ranking in writable(rankings):
        check_unique_passages(ranking)
        question = _id(ranking.question.id, "question")
        scores = _falling([hit.score for hit in ranking.hits])
        for rank, (hit, score) in enumerate(zip(ranking.hits, scores, strict=True), start=1):
            passage = _id(hit.passage.id, "passage")
            stream.write(f"{question} Q0 {passage} {rank} {score!r} jpr\n")


def _falling(scores: list[float]) -> list[float]:
    with np.errstate(over="ignore"):
        single = np.asarray(scores, dtype=np.float64).astype(np.float32)
    if np.all(single[1:] < single[:-1]):
        return [float(score) for score in scores]
    return [float(place) for place in range(len(scores), 0, -1)]


def _id(id: str, kind: str) -> str:
    if not is_word(id):
        raise DataError(
            f"{kind} id {id!r} has white space or is empty, which a TREC run cannot hold; "
            "write format 'ctxs' or give it another id"
        )
    return id


FORMAT = Format(
    "trec",
    "TREC run: question Q0 passage rank score tag, separated by white space",
    _sniff,
    _read,
    _write,
)
