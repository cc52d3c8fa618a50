"""Passages as JSON lines (docs/formats.md): BEIR's, pyserini's (and FlashRAG's), Atlas's."""

from collections.abc import Iterator
from pathlib import Path

from jpr.errors import FormatError
from jpr.formats.format import Head
from jpr.formats.gold import Row, json_format, json_rows, json_writer, with_meta
from jpr.types import Passage

_LONGEST_TITLE = 255
_OF_QUESTIONS = ("question", "query", "answers", "answer", "ctxs", "contexts")


def is_passage(head: Head, *keys: str) -> bool:
    """Return whether the first record has these keys and none of questions or runs."""
    return head.has(*keys) and not any(head.has(key) for key in _OF_QUESTIONS)


def _id(row: Row, key: str) -> str:
    id = row.id(key)
    if not id.strip():
        raise row.error(f"{key!r} is empty; give every passage an id")
    return id


def _beir_file(folder: Path) -> Path | None:
    return min(folder.glob("corpus.jsonl*"), default=None)


def is_beir(head: Head) -> bool:
    """Recognize a BEIR corpus file, or the folder that holds it."""
    if head.path.is_dir():
        return _beir_file(head.path) is not None
    return is_passage(head, "_id", "title", "text")


def _beir_record(passage: Passage) -> dict[str, object]:
    meta = dict(passage.meta)
    return {"_id": passage.id, "title": passage.title, "text": passage.text, "metadata": meta}


def _beir_rows(path: Path) -> Iterator[Row]:
    file = _beir_file(path) if path.is_dir() else path
    if file is None:
        raise FormatError(path, 0, "the folder holds no corpus.jsonl; name the file itself")
    return json_rows(file)


@json_format("beir", is_beir, json_writer(_beir_record), _beir_rows)
def _beir(row: Row) -> Passage:
    """BEIR's corpus.jsonl, or its folder: _id, title, text, metadata."""
    meta = row.without("_id", "title", "text", "metadata")
    if row.has("metadata"):
        meta |= row.field("metadata", dict)
    return Passage(_id(row, "_id"), row.optional_text("title"), row.text("text"), meta)


def _title_and_text(contents: str) -> tuple[str, str]:
    first, newline, rest = contents.partition("\n")
    if not newline or len(first) > _LONGEST_TITLE:
        return "", contents
    title = first.strip()
    return (title[1:-1] if _in_quotes(title) else title), rest


def _in_quotes(title: str) -> bool:
    return len(title) >= 2 and title[0] == title[-1] == '"'


def _pyserini_record(passage: Passage) -> dict[str, object]:
    title = passage.title.replace("\n", " ")
    if _in_quotes(title):
        title = f'"{title}"'
    meta = {key: value for key, value in passage.meta.items() if key != "title"}
    return with_meta({"id": passage.id, "contents": f"{title}\n{passage.text}"}, meta)


@json_format(
    "pyserini", lambda head: is_passage(head, "id", "contents"), json_writer(_pyserini_record)
)
def _pyserini(row: Row) -> Passage:
    """JSON lines of pyserini and FlashRAG: id and contents, whose first line is the title."""
    id, contents, title = _id(row, "id"), row.text("contents"), row.optional_text("title")
    first, text = _title_and_text(contents)
    if title and first != title:
        text = contents
    return Passage(id, title or first, text, row.without("id", "title", "contents"))


def _sniff_atlas(head: Head) -> bool:
    known = is_passage(head, "id", "title", "text") and not head.has("contents")
    return known and (head.has("section") or not head.has("url"))


def _atlas_record(passage: Passage) -> dict[str, object]:
    record = {"id": passage.id, "title": passage.title, "text": passage.text}
    return with_meta(record, passage.meta)


@json_format("atlas", _sniff_atlas, json_writer(_atlas_record))
def atlas(row: Row) -> Passage:
    """Atlas's JSON lines: id, title, text, section."""
    meta = row.without("id", "title", "text")
    return Passage(_id(row, "id"), row.optional_text("title"), row.text("text"), meta)


FORMATS = (_beir, _pyserini, atlas)
