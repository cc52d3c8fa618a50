"""Runs in JSON (docs/formats.md): a question with its passages, best first.

Ours is ctxs (FiD, DPR), for it holds all of a `Ranking`. Pyserini takes only what is between the
first and the second line break of a text, so breaks inside a passage are written as blanks; its
`answers` are one flat list, so distinct answers are written beside it, as our `annotations`, which
it ignores.
"""

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from jpr.formats.format import Head, Located, file_format, is_record
from jpr.formats.gold import (
    Row,
    json_documents,
    json_format,
    json_line,
    json_writer,
    question_record,
    with_meta,
)
from jpr.formats.runs.records import TEXTS, Record, hit_of, hits_of, minus_rank, question_of
from jpr.types import Hit, Passage, Question, Ranking


def _list_under(head: Head, key: str) -> list[object]:
    listed = head.value[key] if head.has(key) else None
    return listed if isinstance(listed, list) else []


def _has_entities(head: Head) -> bool:
    """Return whether answers are objects: a question of WebQSP, even if it has `passages`."""
    return any(map(is_record, _list_under(head, "answers")))


def _sniff_ctxs(head: Head) -> bool:
    if _has_entities(head):
        return False
    if head.has("ctxs"):
        return isinstance(head.value["ctxs"], list)
    first = next(iter(_list_under(head, "passages")), None)
    return head.has("question") and any(is_record(first, name) for name in TEXTS)


def _ctxs_record(ranking: Ranking) -> Record:
    return {**question_record(ranking.question), "ctxs": list(map(_ctx, ranking.hits))}


def _ctx(hit: Hit) -> Record:
    passage = hit.passage
    record = {"id": passage.id, "title": passage.title, "text": passage.text, "score": hit.score}
    return with_meta(record, passage.meta)


@json_format("ctxs", _sniff_ctxs, json_writer(_ctxs_record))
def _ctxs(row: Row) -> Ranking:
    """FiD and DPR output, and our own: JSON or JSON lines with question, answers, ctxs."""
    question = question_of(row)
    key = row.first(("ctxs", "passages"))
    if not key:
        raise row.error("key 'ctxs' is missing: the list of retrieved passages")
    return Ranking(question, hits_of(row.at(key)))


def _sniff_ambigprompt(head: Head) -> bool:
    if not head.has("question", "answers") or head.has("ctxs") or _has_entities(head):
        return False
    listed = _list_under(head, "passages")
    return bool(listed) and all(isinstance(item, int | str) for item in listed)


@json_format("ambigprompt", _sniff_ambigprompt)
def _ambigprompt(row: Row) -> Ranking:
    """AmbigPrompt's data: JSON with question, answers per annotator, ids of passages."""
    return Ranking(question_of(row), hits_of(row.at("passages"), _bare_hit))


def _bare_hit(row: Row) -> Hit:
    return Hit(Passage(replace(row, name="id").as_id(), "", ""), minus_rank(row))


def _sniff_rank_llm(head: Head) -> bool:
    if not head.has("query", "candidates"):
        return False
    return is_record(head.value["query"]) and isinstance(head.value["candidates"], list)


def _rank_llm_record(ranking: Ranking) -> Record:
    query = {"text": ranking.question.text, "qid": ranking.question.id}
    return {"query": query, "candidates": list(map(_candidate, ranking.hits))}


def _candidate(hit: Hit) -> Record:
    texts = {"title": hit.passage.title, "text": hit.passage.text}
    document = with_meta(texts, hit.passage.meta)
    return {"docid": hit.passage.id, "score": hit.score, "doc": document}


@json_format("rank_llm", _sniff_rank_llm, json_writer(_rank_llm_record))
def _rank_llm(row: Row) -> Ranking:
    """rank_llm's requests: JSON or JSON lines with query and candidates."""
    query = row.at("query", dict)
    text = query.text("text")
    id = query.id("qid") if query.has("qid") else ""
    hits = hits_of(row.at("candidates"), _candidate_hit)
    return Ranking(Question(id or text, text), hits)


def _candidate_hit(row: Row) -> Hit:
    own = {"id": row.field("docid", object), "score": row.record().get("score")}
    document = row.field("doc", dict) if row.has("doc") else {}
    return hit_of(replace(row, value={**row.without("docid", "doc", "score"), **document, **own}))


def _sniff_pyserini(head: Head) -> bool:
    first = next(iter(head.value.values()), None) if isinstance(head.value, dict) else None
    return is_record(first, "question", "contexts")


def _write_pyserini(rankings: Iterable[Ranking], stream: TextIO) -> None:
    before = "{\n"
    for ranking in rankings:
        record = _flat_question(ranking.question)
        record["contexts"] = [_context(hit) for hit in ranking.hits]
        stream.write(f"{before}{json.dumps(ranking.question.id)}: {json_line(record)}")
        before = ","
    stream.write("{}\n" if before == "{\n" else "}\n")


def _flat_question(question: Question) -> Record:
    record = question_record(question)
    del record["id"]
    record["answers"] = [alias for aliases in question.answers for alias in aliases]
    if len(question.answers) > 1 and not question.annotations:
        record["annotations"] = [question.answers]
    return record


def _context(hit: Hit) -> Record:
    passage = hit.passage
    record: Record = {"docid": passage.id, "score": str(hit.score)}
    if passage.title or passage.text:
        title = passage.title.replace('"', '""').replace("\n", " ")
        record["text"] = f'"{title}"\n' + passage.text.replace("\n", " ")
    return with_meta(record, passage.meta)


@file_format("pyserini-run", _sniff_pyserini, _write_pyserini)
def _pyserini_run(path: Path) -> Located[Ranking]:
    """pyserini's DPR run: one JSON object, question id -> question, answers, contexts."""
    for document in json_documents(path):
        for id, row in document.items():
            with row.within(f"question {id!r}"):
                named = replace(row, value={**row.record(), "id": id})
                ranking = Ranking(question_of(named), hits_of(row.at("contexts"), _context_hit))
            yield 0, ranking


def _context_hit(row: Row) -> Hit:
    hit = hit_of(replace(row, value={**row.without("docid"), "id": row.field("docid", object)}))
    if hit.passage.title or "\n" not in hit.passage.text:
        return hit
    title, text = hit.passage.text.split("\n", 1)
    if len(title) > 1 and title[0] == title[-1] == '"':
        title = title[1:-1].replace('""', '"')
    return Hit(replace(hit.passage, title=title, text=text), hit.score)


FORMATS = (_ctxs, _ambigprompt, _rank_llm, _pyserini_run)
