"""Passages as JSON lines (docs/formats.md): BEIR's, pyserini's (and FlashRAG's), Atlas's."""

from collections.abc import Iterator
from pathlib import Path

from jpr.errors import FormatError
from jpr.formats.format import Head
from jpr.formats.gold import Row, json_format, json_rows, json_writer, passage_record, with_meta
from jpr.types import Passage

_BEIR_FILE = "corpus.jsonl*"
_LONGEST_TITLE = 255
_OF_QUESTIONS = ("question", "query", "answers", "answer", "ctxs", "contexts")


def is_passage(head: Head, *keys: str) -> bool:
    """Return whether the first record has these keys and none of questions or runs."""
    return head.has(*keys) and not head.has_any(*_OF_QUESTIONS)


def _passage(row: Row, id_key: str, text_key: str, *meta_keys: str) -> Passage:
    """Read a passage with its parts under these keys; what remains is meta, too."""
    id = row.id(id_key)
    if not id.strip():
        raise row.error(f"{id_key!r} is empty; give every passage an id")
    meta = row.without(id_key, "title", text_key, *meta_keys)
    for key in filter(row.has, meta_keys):
        meta |= row.field(key, dict)
    return Passage(id, row.optional_text("title"), row.text(text_key), meta)


def is_beir(head: Head) -> bool:
    """Recognize a BEIR corpus file, or the folder that holds it."""
    if head.path.is_dir():
        return any(head.path.glob(_BEIR_FILE))
    return is_passage(head, "_id", "title", "text")


def _beir_record(passage: Passage) -> dict[str, object]:
    meta = dict(passage.meta)
    return {"_id": passage.id, "title": passage.title, "text": passage.text, "metadata": meta}


def _beir_rows(path: Path) -> Iterator[Row]:
    file = min(path.glob(_BEIR_FILE), default=None) if path.is_dir() else path
    if file is None:
        raise FormatError(path, 0, "the folder holds no corpus.jsonl; name the file itself")
    return json_rows(file)


@json_format("beir", is_beir, json_writer(_beir_record), _beir_rows)
def _beir(row: Row) -> Passage:
    """BEIR's corpus.jsonl, or its folder: _id, title, text, metadata."""
    return _passage(row, "_id", "text", "metadata")


def _in_quotes(title: str) -> bool:
    return len(title) >= 2 and title[0] == title[-1] == '"'


def _contents(passage: Passage) -> dict[str, object]:
    title = passage.title.replace("\n", " ")
    if _in_quotes(title):
        title = f'"{title}"'
    meta = {key: value for key, value in passage.meta.items() if key != "title"}
    return with_meta({"id": passage.id, "contents": f"{title}\n{passage.text}"}, meta)


@json_format("pyserini", lambda head: is_passage(head, "id", "contents"), json_writer(_contents))
def _pyserini(row: Row) -> Passage:
    """JSON lines of pyserini and FlashRAG: id and contents, whose first line is the title."""
    passage = _passage(row, "id", "contents")
    first, newline, text = passage.text.partition("\n")
    title = first.strip()
    if _in_quotes(title):
        title = title[1:-1]
    is_title = newline and len(first) <= _LONGEST_TITLE and passage.title in ("", title)
    return Passage(passage.id, title, text, passage.meta) if is_title else passage


def _sniff_atlas(head: Head) -> bool:
    known = is_passage(head, "id", "title", "text") and not head.has("contents")
    return known and (head.has("section") or not head.has("url"))


@json_format("atlas", _sniff_atlas, json_writer(passage_record))
def atlas(row: Row) -> Passage:
    """Atlas's JSON lines: id, title, text, section."""
    return _passage(row, "id", "text")


FORMATS = (_beir, _pyserini, atlas)
