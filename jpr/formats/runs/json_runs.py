"""Runs in JSON (docs/formats.md): a question with its passages, best first.

Of several spellings of one key, the first that is not null counts; others stay in the `meta`.
Pyserini takes only what is between the first and the second line break of a text, so breaks inside
a passage are written as blanks; its `answers` are one flat list, so distinct answers are written
beside it, as our `annotations`, which it ignores.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import replace
from math import isfinite, nan
from typing import TextIO

from jpr.formats import gold
from jpr.formats.format import Head, is_record
from jpr.formats.gold import Answers, Row, json_format, json_line, json_writer, united, with_meta
from jpr.types import NO_META, Hit, Passage, Question, Ranking

PASSAGE_IDS = ("id", "passage_id", "docid", "doc_id", "pid", "psg_id", "_id")
TEXTS = ("text", "segment", "contents", "content", "body", "passage")
QUESTION_IDS = ("id", "q_id", "question_id", "qid", "query_id", "_id")
_ANSWERS = ("answers", "answer", "target")  # FiD's target counts if there is nothing else
Record = dict[str, object]


def question_of(row: Row) -> Question:
    """Read the question; without an id its text is its id."""
    text = row.text("question")
    answers, annotations = _gold(row)
    return Question(question_id(row), text, answers, annotations, row.optional_text("regex"))


def question_id(row: Row) -> str:
    """Return the id of the question under whichever key it is, or else its text."""
    known = row.first(QUESTION_IDS)
    id = known.as_id() if known else ""
    return id or row.text("question")


def _gold(row: Row) -> tuple[Answers, tuple[Answers, ...]]:
    """Read a flat list (DPR, FiD), a list of lists (ours) or one of those per annotator.

    Each annotator's answers replace a flat list, which cannot separate distinct answers.
    """
    annotations = row.at("annotations").annotations() if row.has("annotations") else ()
    given = row.first(_ANSWERS)
    if given is None:
        return united(annotations)
    nested = gold.is_nested(given.value)
    if nested and any(isinstance(item, list) for items in given.value for item in items):
        return united(given.annotations())
    answers = given.answers()
    if annotations and not (answers and nested):
        return united(annotations)
    return answers, annotations


def hit_of(row: Row) -> Hit:
    """Read one retrieved passage: id, title, text, score, and the rest as its `meta`.

    Without an id the passage is named by the SHA-1 of its content, so that the same passage has
    the same id everywhere; without a score its score is minus its rank.
    """
    given = row.record().get("score")
    score = -row.position - 1.0 if given is None else finite_score(row, given)
    known, body = row.first(PASSAGE_IDS), row.first(TEXTS)
    id_key, text_key = known.name if known else "id", body.name if body else "text"
    id = known.as_id() if known else ""
    title, text = row.optional_text("title"), row.optional_text(text_key)
    if not (id or title or text):
        raise row.error("neither an id nor a text; give it 'id', or 'title' and 'text'")
    if not id:
        content = f"{title}\n{text}".encode("utf-8", "surrogatepass")
        id = hashlib.sha1(content, usedforsecurity=False).hexdigest()
    meta = row.without(id_key, text_key, "id", "title", "text", "score")
    return Hit(Passage(id, title, text, meta or NO_META), score)


def finite_score(row: Row, value: object) -> float:
    """Return a score, given as a number or as the text of one; it must be finite."""
    if isinstance(value, (float, str, int)) and not isinstance(value, bool):
        try:
            score = float(value)
        except (ValueError, OverflowError):
            score = nan
        if isfinite(score) and not (isinstance(value, str) and "_" in value):
            return score
    raise row.error(f"a score should be a finite number, not {value!r:.40}")


def _has_entities(head: Head) -> bool:
    """Return whether answers are objects: a question of WebQSP, even if it has `passages`."""
    return head.has(answers=list) and any(map(is_record, head.value["answers"]))


def _sniff_ctxs(head: Head) -> bool:
    if _has_entities(head):
        return False
    if head.has("ctxs"):
        return head.has(ctxs=list)
    return head.has("question") and head.first_of("passages").has_any(*TEXTS)


def _ctxs_record(ranking: Ranking) -> Record:
    hits = [gold.passage_record(hit.passage, score=hit.score) for hit in ranking.hits]
    return {**gold.question_record(ranking.question), "ctxs": hits}


@json_format("ctxs", _sniff_ctxs, json_writer(_ctxs_record))
def _ctxs(row: Row) -> Ranking:
    """FiD and DPR output, and our own: JSON or JSON lines with question, answers, ctxs."""
    question, listed = question_of(row), row.first(("ctxs", "passages")) or row.at("ctxs")
    return Ranking(question, tuple(map(hit_of, listed.each("passage"))))


def _sniff_ambigprompt(head: Head) -> bool:
    if not head.has("question", "answers", passages=list):
        return False
    ids = head.value["passages"]
    others = not ids or head.has("ctxs") or _has_entities(head)
    return not others and all(isinstance(id, int | str) for id in ids)


@json_format("ambigprompt", _sniff_ambigprompt)
def _ambigprompt(row: Row) -> Ranking:
    """AmbigPrompt's data: JSON with question, answers per annotator, ids of passages."""
    question, ids = question_of(row), row.at("passages").each("passage")
    hits = (Hit(Passage(replace(id, name="id").as_id(), "", ""), -id.position - 1.0) for id in ids)
    return Ranking(question, tuple(hits))


def _request(ranking: Ranking) -> Record:
    query = {"text": ranking.question.text, "qid": ranking.question.id}
    return {"query": query, "candidates": list(map(_candidate, ranking.hits))}


def _candidate(hit: Hit) -> Record:
    texts = {"title": hit.passage.title, "text": hit.passage.text}
    document = with_meta(texts, hit.passage.meta)
    return {"docid": hit.passage.id, "score": hit.score, "doc": document}


@json_format("rank_llm", lambda head: head.has(query=dict, candidates=list), json_writer(_request))
def _rank_llm(row: Row) -> Ranking:
    """rank_llm's requests: JSON or JSON lines with query and candidates."""
    query = row.at("query", dict)
    text = query.text("text")
    id = query.id("qid") if query.has("qid") else ""
    hits = tuple(map(_candidate_hit, row.at("candidates").each("passage")))
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
        question = ranking.question
        record = gold.question_record(question)
        del record["id"]
        record["answers"] = [alias for aliases in question.answers for alias in aliases]
        if len(question.answers) > 1 and not question.annotations:
            record["annotations"] = [question.answers]
        record["contexts"] = list(map(_context, ranking.hits))
        stream.write(f"{before}{json.dumps(question.id)}: {json_line(record)}")
        before = ","
    stream.write("{}\n" if before == "{\n" else "}\n")


def _context(hit: Hit) -> Record:
    passage = hit.passage
    record: Record = {"docid": passage.id, "score": str(hit.score)}
    if passage.title or passage.text:
        title = passage.title.replace('"', '""').replace("\n", " ")
        record["text"] = f'"{title}"\n' + passage.text.replace("\n", " ")
    return with_meta(record, passage.meta)


@json_format("pyserini-run", _sniff_pyserini, _write_pyserini, gold.rows_by_id)
def _pyserini_run(row: Row) -> Ranking:
    """pyserini's DPR run: one JSON object, question id -> question, answers, contexts."""
    question = question_of(replace(row, value={**row.record(), "id": row.name}))
    return Ranking(question, tuple(map(_context_hit, row.at("contexts").each("passage"))))


def _context_hit(row: Row) -> Hit:
    hit = hit_of(replace(row, value={**row.without("docid"), "id": row.field("docid", object)}))
    if hit.passage.title or "\n" not in hit.passage.text:
        return hit
    title, text = hit.passage.text.split("\n", 1)
    if len(title) > 1 and title[0] == title[-1] == '"':
        title = title[1:-1].replace('""', '"')
    return Hit(replace(hit.passage, title=title, text=text), hit.score)


FORMATS = (_ctxs, _ambigprompt, _rank_llm, _pyserini_run)
