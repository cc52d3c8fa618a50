"""Pyserini's DPR retrieval run: one JSON object, question id -> question, answers, contexts.

A context is `{"docid", "score", "text", "has_answer"}` whose text is the title, often in CSV's
double quotes, a line break, and the passage; without `--store-raw` there is no text. Pyserini
takes only what stands between the first and the second line break, so writing turns breaks inside
a passage into blanks. Its `answers` are one flat list: distinct answers go beside it, into our
`annotations`, which it ignores. The file is one document: reading holds all of it in memory.
"""

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from jpr.formats.format import Format, Head, Located
from jpr.formats.gold import Row, json_documents, json_line, question_record
from jpr.formats.runs.fields import Record, hit_of, hits_of, passage, with_meta, writable
from jpr.formats.runs.question import question_of
from jpr.types import Hit, Passage, Question, Ranking


def _sniff(head: Head) -> bool:
    if not isinstance(head.value, dict):
        return False
    first = next(iter(head.value.values()), None)
    return isinstance(first, dict) and "question" in first and "contexts" in first


def _read(path: Path) -> Located[Ranking]:
    for document in json_documents(path):
        for id, row in document.items():
            with row.within(f"question {id!r}"):
                named = replace(row, value={**row.record(), "id": id})
                ranking = Ranking(question_of(named), hits_of(row.at("contexts"), _hit))
            yield 0, ranking


def _hit(row: Row) -> Hit:
    fields = {**row.record(), "id": row.field("docid", object)}
    del fields["docid"]
    hit = hit_of(replace(row, value=fields))
    if hit.passage.title or "\n" not in hit.passage.text:
        return hit
    title, text = hit.passage.text.split("\n", 1)
    return Hit(passage(hit.passage.id, _unquoted(title), text, hit.passage.meta), hit.score)


def _unquoted(title: str) -> str:
    if len(title) > 1 and title[0] == title[-1] == '"':
        return title[1:-1].replace('""', '"')
    return title


def _write(rankings: Iterable[Ranking], stream: TextIO) -> None:
    before = "{\n"
    for ranking in writable(rankings):
        record = _question(ranking.question)
        record["contexts"] = [_context(hit) for hit in ranking.hits]
        stream.write(f"{before}{json.dumps(ranking.question.id)}: {json_line(record)}")
        before = ","
    stream.write("{}\n" if before == "{\n" else "}\n")


def _question(question: Question) -> Record:
    record = question_record(question)
    del record["id"]
    record["answers"] = [alias for aliases in question.answers for alias in aliases]
    if len(question.answers) > 1 and not question.annotations:
        record["annotations"] = [question.answers]
    return record


def _context(hit: Hit) -> Record:
    record: Record = {"docid": hit.passage.id, "score": str(hit.score)}
    if hit.passage.title or hit.passage.text:
        record["text"] = _text(hit.passage)
    return with_meta(record, hit.passage.meta)


def _text(passage: Passage) -> str:
    title = passage.title.replace('"', '""')
    return f'"{title}"'.replace("\n", " ") + "\n" + passage.text.replace("\n", " ")


FORMAT = Format(
    "pyserini-run",
    "pyserini's DPR run: one JSON object, question id -> question, answers, contexts",
    _sniff,
    _read,
    _write,
)
