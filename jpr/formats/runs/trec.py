"""TREC's formats (docs/formats.md): runs and diversity judgements.

Only ASCII white space separates columns: a no-break space or a line separator may be part of an id.
Reading orders passages by score, as `trec_eval` does, equal scores by the rank column. `trec_eval`
reads scores in single precision and orders equal ones by id, so a ranking whose scores do not fall
strictly in single precision is written with the scores n, n-1, …, 1 instead.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import numpy as np

from jpr.errors import DataError
from jpr.formats.format import Head, Located, RecordKind, file_format
from jpr.formats.gold import Row
from jpr.formats.runs.align import check_unique_passages
from jpr.formats.runs.json_runs import finite_score
from jpr.io.text_files import read_lines
from jpr.types import Hit, Passage, Question, Ranking

_LONGEST = 10_000  # characters: a file of one line may be a whole JSON array
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_COLUMN = re.compile(r"[^ \t\n\r\f\v]+")
_NOT_IN_A_WORD = re.compile("[ \t\n\r\f\v\x1c-\x1f\ud800-\udfff\ufeff]")


def columns_of(line: str) -> list[str]:
    """Split a line into its columns.

    >>> columns_of("q1  Q0\\tNew\\u00a0York 1 2.5 run")
    ['q1', 'Q0', 'New\\xa0York', '1', '2.5', 'run']
    """
    return line.split() if line.isascii() else _COLUMN.findall(line)


def is_word(text: str) -> bool:
    """Return whether a text can be a column: written and read back, it is the same."""
    return bool(text) and not _NOT_IN_A_WORD.search(text)


def _rows(path: Path, names: str) -> Iterator[Row]:
    """Yield the columns of each line."""
    count = len(names.split())
    for line, text in read_lines(path):
        if columns := columns_of(text):
            row = Row(columns, path, line)
            if len(columns) != count:
                raise row.error(f"{len(columns)} columns instead of {count}: {names}")
            yield row


def _whole(row: Row, text: str, name: str) -> int:
    if not _WHOLE.fullmatch(text):
        raise row.error(f"the {name} should be a whole number, not {text!r:.40}")
    return int(text)


def _sniff_run(head: Head) -> bool:
    columns = columns_of(head.line[:_LONGEST])
    is_run = len(columns) == 6 and columns[1] in ("Q0", "q0", "0")
    return is_run and _WHOLE.fullmatch(columns[3]) is not None


def _write_run(rankings: Iterable[Ranking], stream: TextIO) -> None:
    for ranking in rankings:
        check_unique_passages(ranking)
        _check_words("a TREC run", ranking.question.id, *(hit.passage.id for hit in ranking.hits))
        scores = [hit.score for hit in ranking.hits]
        with np.errstate(over="ignore"):
            single = np.asarray(scores, dtype=np.float64).astype(np.float32)
        if not np.all(single[1:] < single[:-1]):
            scores = [float(place) for place in range(len(scores), 0, -1)]
        for rank, (hit, score) in enumerate(zip(ranking.hits, scores, strict=True), start=1):
            line = f"{ranking.question.id} Q0 {hit.passage.id} {rank} {float(score)!r} jpr\n"
            stream.write(line)


def _check_words(file: str, *ids: str) -> None:
    for id in ids:
        if not is_word(id):
            problem = f"id {id!r} is empty or has white space, which {file} cannot hold"
            raise DataError(f"{problem}; write a JSON format or give it another id")


@file_format("trec", _sniff_run, _write_run)
def _trec(path: Path) -> Located[Ranking]:
    """TREC run: question Q0 passage rank score tag, separated by white space."""
    run: dict[str, dict[str, tuple[float, int]]] = {}  # passage id -> minus its score, its rank
    first: dict[str, int] = {}
    for row in _rows(path, "question Q0 passage rank score tag"):
        question, _, passage, rank, score, _ = row.value
        places = run.setdefault(question, {})
        first.setdefault(question, row.line)
        if passage in places:
            problem = f"passage {passage!r} comes twice for question {question!r}"
            raise row.error(f"{problem}; remove the repetition")
        number = _whole(row, rank, "rank")
        places[passage] = (-finite_score(row, score), number)
    passages: dict[str, Passage] = {}  # the same passage of many questions is one object
    for question, places in run.items():
        hits = (
            Hit(passages.setdefault(id, Passage(id, "", "")), -places[id][0])
            for id in sorted(places, key=places.__getitem__)
        )
        yield first[question], Ranking(Question(question, ""), tuple(hits))


@dataclass(frozen=True, slots=True)
class Judgement:
    """How relevant a passage is to one subtopic of a question; 0 or less is not relevant."""

    question_id: str
    subtopic: str
    passage_id: str
    relevance: int


def _sniff_qrels(head: Head) -> bool:
    columns = columns_of(head.line[:_LONGEST])
    return len(columns) == 4 and _WHOLE.fullmatch(columns[3]) is not None


def write_qrels(judgements: Iterable[Judgement], stream: TextIO) -> None:
    """Write judgements, one line each."""
    for judgement in judgements:
        words = (judgement.question_id, judgement.subtopic, judgement.passage_id)
        _check_words("qrels", *words)
        stream.write(f"{' '.join(words)} {judgement.relevance}\n")


@file_format("qrels", _sniff_qrels, write_qrels)
def qrels(path: Path) -> Located[Judgement]:
    """diversity judgements: question subtopic passage relevance, separated by white space."""
    for row in _rows(path, "question subtopic passage relevance"):
        question, subtopic, passage, relevance = row.value
        number = _whole(row, relevance, "relevance")
        yield row.line, Judgement(question, subtopic, passage, number)


KIND = RecordKind(
    "judgements", (qrels,), lambda one: f"{one.question_id} {one.subtopic} {one.passage_id}"
)


def load_qrels(path: str | Path) -> list[Judgement]:
    """Read all judgements of a file; the same question, subtopic and passage twice is an error."""
    return list(KIND.read(path, qrels.name))


FORMATS = (_trec,)
