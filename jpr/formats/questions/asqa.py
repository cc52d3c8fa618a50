"""ASQA: `{"dev": {id: {"ambiguous_question", "qa_pairs": [{"short_answers"}]}}}`, or JSON lines.

Every pair is an answer with `short_answers` as its aliases; pairs that share an alias after
normalisation are one in `answers` and stay apart in `annotations`, as in AmbigNQ. A file with
several splits is read one split at a time, so that train and dev are never mixed by accident.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from jpr.errors import FormatError
from jpr.formats.format import Format, Head, Located
from jpr.formats.gold import Row, json_rows, united
from jpr.formats.questions.rows import read_rows
from jpr.types import Question

_SPLITS = ("train", "dev")


def _sniff(head: Head) -> bool:
    if head.has("ambiguous_question", "qa_pairs"):
        return True
    if not _is_split(head.value):
        return False
    first = next((record for split in head.value.values() for record in split.values()), None)
    return isinstance(first, dict) and "ambiguous_question" in first


def _is_split(value: object) -> bool:
    if not isinstance(value, dict) or not value:
        return False
    return all(name in _SPLITS and isinstance(split, dict) for name, split in value.items())


def _read(split: str | None, path: Path) -> Located[Question]:
    return read_rows(_rows(split, path), _question)


def _rows(split: str | None, path: Path) -> Iterator[Row]:
    for row in json_rows(path):
        if not _is_split(row.value):
            yield row
            continue
        for at, (id, record) in enumerate(_chosen(split, row.value, path).items()):
            named = {**record, "sample_id": id} if isinstance(record, dict) else record
            yield Row(named, path, 0, at)


def _chosen(split: str | None, splits: dict[str, Any], path: Path) -> dict[str, Any]:
    there = " and ".join(splits)
    if split is None and len(splits) > 1:
        raise FormatError(path, 0, f"holds {there}; choose asqa-train or asqa-dev (--from)")
    if split is not None and split not in splits:
        raise FormatError(path, 0, f"holds {there}, not {split}; choose what it holds (--from)")
    chosen: dict[str, Any] = splits[split or next(iter(splits))]
    return chosen


def _question(row: Row) -> Question:
    pairs = (pair.at("short_answers").aliases() for pair in row.at("qa_pairs").each())
    answers, annotations = united([tuple(filter(None, pairs))])
    return Question(row.id("sample_id"), row.text("ambiguous_question"), answers, annotations)


FORMATS = (
    Format(
        "asqa",
        "ASQA: one split as JSON, or JSON lines with sample_id",
        _sniff,
        partial(_read, None),
    ),
    Format(
        "asqa-train",
        "the train split of an ASQA file with several",
        lambda head: False,
        partial(_read, "train"),
    ),
    Format(
        "asqa-dev",
        "the dev split of an ASQA file with several",
        lambda head: False,
        partial(_read, "dev"),
    ),
)
