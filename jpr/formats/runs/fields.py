"""The fields that runs of every JSON family share, under all their spellings.

Where a record has several spellings of one thing, the first that is not null counts and the
others stay in the passage's `meta`.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import isfinite, nan
from pathlib import Path

from jpr.errors import DataError, FormatError
from jpr.formats.gold import Row
from jpr.types import Hit, Passage, Ranking

PASSAGE_IDS = ("id", "passage_id", "docid", "doc_id", "pid", "psg_id", "_id")
TEXTS = ("text", "segment", "contents", "content", "body", "passage")
Record = dict[str, object]


def number(value: object, path: Path, line: int) -> float:
    """Return a score, written as a number or as the text of one; it must be finite."""
    if isinstance(value, (float, str, int)) and not isinstance(value, bool):
        try:
            score = float(value)
        except (ValueError, OverflowError):
            score = nan
        if isfinite(score) and not (isinstance(value, str) and "_" in value):
            return score
    raise FormatError(path, line, f"a score should be a finite number, not {value!r:.40}")


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
    score = record.get("score")
    used = {id_key, text_key, "id", "title", "text", "score"}
    meta = {key: value for key, value in record.items() if key not in used}
    return Hit(
        passage(id or content_id(title, text), title, text, meta),
        minus_rank(row) if score is None else number(score, row.path, row.line),
    )


def minus_rank(row: Row) -> float:
    """Return the score of a passage that has none: minus its rank, counted from 1."""
    return float(-row.position - 1)


def passage(id: str, title: str, text: str, meta: Mapping[str, object]) -> Passage:
    """Make a passage; those without `meta` share one empty mapping."""
    return Passage(id, title, text, meta) if meta else Passage(id, title, text)


def content_id(title: str, text: str) -> str:
    """Name a passage by what it says."""
    content = f"{title}\n{text}".encode("utf-8", "surrogatepass")
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()


def hits_of(row: Row, read: Callable[[Row], Hit] = hit_of) -> tuple[Hit, ...]:
    """Read retrieved passages, best first, naming by its rank the one that is wrong."""
    hits = []
    for item in row.each():
        with item.within(f"passage {item.position + 1}"):
            hits.append(read(item))
    return tuple(hits)


def with_meta(record: Record, meta: Mapping[str, object]) -> Record:
    """Add what else is known of a passage to its record; the record's own keys stay."""
    for key, value in meta.items():
        record.setdefault(key, value)
    return record


def writable(rankings: Iterable[Ranking]) -> Iterator[Ranking]:
    """Pass on rankings that can be read back: each question once, every score finite."""
    seen = set()
    for ranking in rankings:
        id = ranking.question.id
        if id in seen:
            raise DataError(f"two rankings for question {id!r}; a run holds one for each question")
        seen.add(id)
        for hit in ranking.hits:
            if not isfinite(hit.score):
                raise DataError(
                    f"question {id!r}: passage {hit.passage.id!r} has score {hit.score}; "
                    "only finite scores can be written"
                )
        yield ranking
