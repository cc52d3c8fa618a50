"""The questions and passages in records of JSON runs, under all spellings of their keys.

If a record has several spellings of one thing, the first that is not null counts and the others
stay in the passage's `meta`. `answers` may be a flat list (DPR, FiD), a list of lists (ours) or a
list of those, one for each annotator (AmbigPrompt). `annotations` holds each annotator's answers,
as AmbigNQ's objects (RECTIFY) or as our lists; they replace a flat list, which cannot separate
distinct answers. FiD's `target` counts only if there is nothing else.
"""

import hashlib
from collections.abc import Callable
from math import isfinite, nan
from pathlib import Path

from jpr.errors import FormatError
from jpr.formats.gold import Answers, Row, is_nested, united
from jpr.types import NO_META, Hit, Passage, Question

PASSAGE_IDS = ("id", "passage_id", "docid", "doc_id", "pid", "psg_id", "_id")
TEXTS = ("text", "segment", "contents", "content", "body", "passage")
QUESTION_IDS = ("id", "q_id", "question_id", "qid", "query_id", "_id")
_ANSWERS = ("answers", "answer", "target")
Record = dict[str, object]


def question_of(row: Row) -> Question:
    """Read the question; without an id its text is its id."""
    text = row.text("question")
    answers, annotations = _gold(row)
    regex = row.optional_text("regex")
    return Question(question_id(row) or text, text, answers, annotations, regex)


def question_id(row: Row) -> str:
    """Return the id of the question under whichever key it is, or ""."""
    key = row.first(QUESTION_IDS)
    return row.id(key) if key else ""


def _gold(row: Row) -> tuple[Answers, tuple[Answers, ...]]:
    annotations = row.at("annotations").annotations() if row.has("annotations") else ()
    key = row.first(_ANSWERS)
    if not key:
        return united(annotations)
    given = row.at(key)
    nested = is_nested(given.value)
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
    record = row.record()
    id_key, text_key = row.first(PASSAGE_IDS) or "id", row.first(TEXTS) or "text"
    id = row.id(id_key) if row.has(id_key) else ""
    title, text = row.optional_text("title"), row.optional_text(text_key)
    if not (id or title or text):
        raise row.error("neither an id nor a text; give it 'id', or 'title' and 'text'")
    given = record.get("score")
    score = minus_rank(row) if given is None else finite_score(given, row.path, row.line)
    meta = row.without(id_key, text_key, "id", "title", "text", "score")
    return Hit(Passage(id or _content_id(title, text), title, text, meta or NO_META), score)


def hits_of(row: Row, read: Callable[[Row], Hit] = hit_of) -> tuple[Hit, ...]:
    """Read retrieved passages, best first; errors name a passage by its rank."""
    hits = []
    for item in row.each():
        with item.within(f"passage {item.position + 1}"):
            hits.append(read(item))
    return tuple(hits)


def finite_score(value: object, path: Path, line: int) -> float:
    """Return a score, given as a number or as the text of one; it must be finite."""
    if isinstance(value, (float, str, int)) and not isinstance(value, bool):
        try:
            score = float(value)
        except (ValueError, OverflowError):
            score = nan
        if isfinite(score) and not (isinstance(value, str) and "_" in value):
            return score
    raise FormatError(path, line, f"a score should be a finite number, not {value!r:.40}")


def minus_rank(row: Row) -> float:
    """Return the score of a passage without one: minus its rank, counted from 1."""
    return float(-row.position - 1)


def _content_id(title: str, text: str) -> str:
    content = f"{title}\n{text}".encode("utf-8", "surrogatepass")
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()
