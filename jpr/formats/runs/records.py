"""The questions and passages in records of JSON runs, under all spellings of their keys.

If a record has several spellings of one thing, the first that is not null counts and the others
stay in the passage's `meta`. `answers` may be a flat list (DPR, FiD), a list of lists (ours) or a
list of those, one for each annotator (AmbigPrompt). `annotations` holds each annotator's answers,
as AmbigNQ's objects (RECTIFY) or as our lists; they replace a flat list, which cannot separate
distinct answers. FiD's `target` counts only if there is nothing else.
"""

import hashlib
from math import isfinite, nan

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
    return Question(question_id(row), text, answers, annotations, row.optional_text("regex"))


def question_id(row: Row) -> str:
    """Return the id of the question under whichever key it is, or else its text."""
    known = row.first(QUESTION_IDS)
    id = known.as_id() if known else ""
    return id or row.text("question")


def _gold(row: Row) -> tuple[Answers, tuple[Answers, ...]]:
    annotations = row.at("annotations").annotations() if row.has("annotations") else ()
    given = row.first(_ANSWERS)
    if given is None:
        return united(annotations)
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
