"""Runs in JSON: a question with its passages, best first.

- ctxs (FiD, DPR, and what we write, for it holds all of a `Ranking`): `{"id", "question",
  "answers", "ctxs": [{"id", "title", "text", "score", …}]}`, as an array or as lines. Any other key
  of a passage, such as `has_answer`, is its `meta`. Atlas calls the list `passages`.
- AmbigPrompt: `{"question", "answers": [annotator][answer][alias], "passages": [id, …]}`; the texts
  come from the corpus (`jpr.formats.runs.align.fill_texts`).
- rank_llm: `{"query": {"text", "qid"}, "candidates": [{"docid", "score", "doc": {"title", "text",
  …}}]}`, without gold answers.
- pyserini's DPR run: one object, question id -> question, answers, contexts. A context is
  `{"docid", "score", "text", "has_answer"}`, its text the title, often in CSV's double quotes, a
  line break, and the passage; without `--store-raw` there is no text. Pyserini takes only what is
  between the first and the second line break, so breaks inside a passage are written as blanks.
  Its `answers` are one flat list: distinct answers are written beside it, as our `annotations`,
  which it ignores. Reading holds the whole document in memory.
"""

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from jpr.formats.format import Format, Head, Located
from jpr.formats.gold import Row, json_documents, json_line, json_rows, question_record
from jpr.formats.runs.records import (
    TEXTS,
    Record,
    check_writable,
    hit_of,
    hits_of,
    make_passage,
    minus_rank,
    question_of,
    with_meta,
)
from jpr.types import Hit, Passage, Question, Ranking


def _has_entities(head: Head) -> bool:
    """Return whether answers are objects: a question of WebQSP, even if it has `passages`."""
    answers = head.value["answers"] if head.has("answers") else None
    return isinstance(answers, list) and any(isinstance(answer, dict) for answer in answers)


def _sniff_ctxs(head: Head) -> bool:
    if _has_entities(head):
        return False
    if head.has("ctxs"):
        return isinstance(head.value["ctxs"], list)
    listed = head.value["passages"] if head.has("question", "passages") else None
    first = listed[0] if isinstance(listed, list) and listed else None
    return isinstance(first, dict) and any(name in first for name in TEXTS)


def _read_ctxs(path: Path) -> Located[Ranking]:
    for row in json_rows(path):
        question = question_of(row)
        key = row.first(("ctxs", "passages"))
        if not key:
            raise row.error("key 'ctxs' is missing: the list of retrieved passages")
        yield row.line, Ranking(question, hits_of(row.at(key)))


def _write_ctxs(rankings: Iterable[Ranking], stream: TextIO) -> None:
    for ranking in check_writable(rankings):
        record = question_record(ranking.question)
        record["ctxs"] = [_ctx(hit) for hit in ranking.hits]
        stream.write(json_line(record))


def _ctx(hit: Hit) -> Record:
    passage = hit.passage
    record: Record = {"id": passage.id, "title": passage.title, "text": passage.text}
    return with_meta(record | {"score": hit.score}, passage.meta)


def _sniff_ambigprompt(head: Head) -> bool:
    listed = head.value["passages"] if head.has("question", "answers", "passages") else None
    return (
        isinstance(listed, list)
        and bool(listed)
        and not head.has("ctxs")
        and not _has_entities(head)
        and all(isinstance(item, int | str) for item in listed)
    )


def _read_ambigprompt(path: Path) -> Located[Ranking]:
    for row in json_rows(path):
        yield row.line, Ranking(question_of(row), hits_of(row.at("passages"), _bare_hit))


def _bare_hit(row: Row) -> Hit:
    return Hit(Passage(replace(row, name="id").as_id(), "", ""), minus_rank(row))


def _sniff_rank_llm(head: Head) -> bool:
    return (
        head.has("query", "candidates")
        and isinstance(head.value["query"], dict)
        and isinstance(head.value["candidates"], list)
    )


def _read_rank_llm(path: Path) -> Located[Ranking]:
    for row in json_rows(path):
        query = row.at("query", dict)
        text = query.text("text")
        id = query.id("qid") if query.has("qid") else ""
        hits = hits_of(row.at("candidates"), _candidate_hit)
        yield row.line, Ranking(Question(id or text, text), hits)


def _candidate_hit(row: Row) -> Hit:
    own = {"id": row.field("docid", object), "score": row.record().get("score")}
    outer = {key: value for key, value in row.value.items() if key not in ("docid", "doc", "score")}
    document = row.field("doc", dict) if row.has("doc") else {}
    return hit_of(replace(row, value={**outer, **document, **own}))


def _write_rank_llm(rankings: Iterable[Ranking], stream: TextIO) -> None:
    for ranking in check_writable(rankings):
        query = {"text": ranking.question.text, "qid": ranking.question.id}
        candidates = [_candidate(hit) for hit in ranking.hits]
        stream.write(json_line({"query": query, "candidates": candidates}))


def _candidate(hit: Hit) -> Record:
    document: Record = {"title": hit.passage.title, "text": hit.passage.text}
    document = with_meta(document, hit.passage.meta)
    return {"docid": hit.passage.id, "score": hit.score, "doc": document}


def _sniff_pyserini(head: Head) -> bool:
    if not isinstance(head.value, dict):
        return False
    first = next(iter(head.value.values()), None)
    return isinstance(first, dict) and "question" in first and "contexts" in first


def _read_pyserini(path: Path) -> Located[Ranking]:
    for document in json_documents(path):
        for id, row in document.items():
            with row.within(f"question {id!r}"):
                named = replace(row, value={**row.record(), "id": id})
                ranking = Ranking(question_of(named), hits_of(row.at("contexts"), _context_hit))
            yield 0, ranking


def _context_hit(row: Row) -> Hit:
    fields = {**row.record(), "id": row.field("docid", object)}
    del fields["docid"]
    hit = hit_of(replace(row, value=fields))
    if hit.passage.title or "\n" not in hit.passage.text:
        return hit
    title, text = hit.passage.text.split("\n", 1)
    if len(title) > 1 and title[0] == title[-1] == '"':
        title = title[1:-1].replace('""', '"')
    return Hit(make_passage(hit.passage.id, title, text, hit.passage.meta), hit.score)


def _write_pyserini(rankings: Iterable[Ranking], stream: TextIO) -> None:
    before = "{\n"
    for ranking in check_writable(rankings):
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


CTXS = Format(
    "ctxs",
    "FiD and DPR output, and our own: JSON or JSON lines with question, answers, ctxs",
    _sniff_ctxs,
    _read_ctxs,
    _write_ctxs,
)
AMBIGPROMPT = Format(
    "ambigprompt",
    "AmbigPrompt's data: JSON with question, answers per annotator, ids of passages",
    _sniff_ambigprompt,
    _read_ambigprompt,
)
RANK_LLM = Format(
    "rank_llm",
    "rank_llm's requests: JSON or JSON lines with query and candidates",
    _sniff_rank_llm,
    _read_rank_llm,
    _write_rank_llm,
)
PYSERINI = Format(
    "pyserini-run",
    "pyserini's DPR run: one JSON object, question id -> question, answers, contexts",
    _sniff_pyserini,
    _read_pyserini,
    _write_pyserini,
)
FORMATS = (CTXS, AMBIGPROMPT, RANK_LLM, PYSERINI)
