"""FiD's and DPR's `ctxs`, as a JSON array or JSON lines: a question and its passages, best first.

`{"id", "question", "answers", "ctxs": [{"id", "title", "text", "score", …}]}`. Whatever else a
passage has, such as `has_answer`, is its `meta` and is written back. This is also what we write:
it holds all that a `Ranking` does. Atlas calls the passages `passages`.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

from jpr.formats.format import Format, Head, Located
from jpr.formats.gold import json_line, json_rows, question_record
from jpr.formats.runs.fields import TEXTS, Record, hits_of, with_meta, writable
from jpr.formats.runs.question import has_entities, question_of
from jpr.types import Hit, Ranking

_LISTS = ("ctxs", "passages")


def _sniff(head: Head) -> bool:
    if has_entities(head):
        return False
    if head.has("ctxs"):
        return isinstance(head.value["ctxs"], list)
    listed = head.value["passages"] if head.has("question", "passages") else None
    first = listed[0] if isinstance(listed, list) and listed else None
    return isinstance(first, dict) and any(name in first for name in TEXTS)


def _read(path: Path) -> Located[Ranking]:
    for row in json_rows(path):
        question = question_of(row)
        key = row.first(_LISTS)
        if not key:
            raise row.error("key 'ctxs' is missing: the list of retrieved passages")
        yield row.line, Ranking(question, hits_of(row.at(key)))


def _write(rankings: Iterable[Ranking], stream: TextIO) -> None:
    for ranking in writable(rankings):
        record = question_record(ranking.question)
        record["ctxs"] = [_ctx(hit) for hit in ranking.hits]
        stream.write(json_line(record))


def _ctx(hit: Hit) -> Record:
    passage = hit.passage
    record: Record = {
        "id": passage.id,
        "title": passage.title,
        "text": passage.text,
        "score": hit.score,
    }
    return with_meta(record, passage.meta)


FORMAT = Format(
    "ctxs",
    "FiD and DPR output, and our own: JSON or JSON lines with question, answers, ctxs",
    _sniff,
    _read,
    _write,
)
