"""rank_llm's requests and results: `{"query": {"text", "qid"}, "candidates": [{"docid", …}]}`.

A candidate is `{"docid", "score", "doc": {"title", "text", …}}`; the text may be called segment,
contents, content, body or passage. Gold answers have no place in this format.
"""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from jpr.formats.format import Format, Head, Located
from jpr.formats.gold import Row, json_line, json_rows
from jpr.formats.runs.fields import Record, hit_of, hits_of, with_meta, writable
from jpr.types import Hit, Question, Ranking


def _sniff(head: Head) -> bool:
    return (
        head.has("query", "candidates")
        and isinstance(head.value["query"], dict)
        and isinstance(head.value["candidates"], list)
    )


def _read(path: Path) -> Located[Ranking]:
    for row in json_rows(path):
        query = row.at("query", dict)
        text = query.text("text")
        id = query.id("qid") if query.has("qid") else ""
        yield row.line, Ranking(Question(id or text, text), hits_of(row.at("candidates"), _hit))


def _hit(row: Row) -> Hit:
    own = {"id": row.field("docid", object), "score": row.record().get("score")}
    outer = {key: value for key, value in row.value.items() if key not in ("docid", "doc", "score")}
    document = row.field("doc", dict) if row.has("doc") else {}
    return hit_of(replace(row, value={**outer, **document, **own}))


def _write(rankings: Iterable[Ranking], stream: TextIO) -> None:
    for ranking in writable(rankings):
        record: Record = {
            "query": {"text": ranking.question.text, "qid": ranking.question.id},
            "candidates": [_candidate(hit) for hit in ranking.hits],
        }
        stream.write(json_line(record))


def _candidate(hit: Hit) -> Record:
    document: Record = {"title": hit.passage.title, "text": hit.passage.text}
    with_meta(document, hit.passage.meta)
    return {"docid": hit.passage.id, "score": hit.score, "doc": document}


FORMAT = Format(
    "rank_llm",
    "rank_llm's requests: JSON or JSON lines with query and candidates",
    _sniff,
    _read,
    _write,
)
