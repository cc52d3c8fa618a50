"""Passages as JSON lines: BEIR's, pyserini's (and FlashRAG's), Atlas's.

`contents` of pyserini holds the title as its first line if there is more than one line; a first
line over 255 characters (no title of Wikipedia is longer) is text. If there is also a `title`, all
of `contents` is text, except a first line that repeats the title. Double quotes around a title are
FlashRAG's and are removed. Other keys of a record become its `meta`.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TextIO

from jpr.errors import FormatError
from jpr.formats.format import Format, Head, Located
from jpr.formats.gold import Row, json_line, json_rows
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


def _read_beir(path: Path) -> Located[Passage]:
    file = _beir_file(path) if path.is_dir() else path
    if file is None:
        raise FormatError(path, 0, "the folder holds no corpus.jsonl; name the file itself")
    for row in json_rows(file):
        meta = _others(row.record(), "_id", "title", "text", "metadata")
        if row.has("metadata"):
            meta |= row.field("metadata", dict)
        yield row.line, Passage(_id(row, "_id"), row.optional_text("title"), row.text("text"), meta)


def _others(record: Mapping[str, object], *known: str) -> dict[str, object]:
    return {key: value for key, value in record.items() if key not in known}


def _write_beir(passages: Iterable[Passage], stream: TextIO) -> None:
    for passage in passages:
        record = {"_id": passage.id, "title": passage.title, "text": passage.text}
        stream.write(json_line({**record, "metadata": dict(passage.meta)}))


def _read_pyserini(path: Path) -> Located[Passage]:
    for row in json_rows(path):
        id, contents, title = _id(row, "id"), row.text("contents"), row.optional_text("title")
        first, text = _title_and_text(contents)
        if title and first != title:
            text = contents
        meta = _others(row.record(), "id", "title", "contents")
        yield row.line, Passage(id, title or first, text, meta)


def _title_and_text(contents: str) -> tuple[str, str]:
    first, newline, rest = contents.partition("\n")
    if not newline or len(first) > _LONGEST_TITLE:
        return "", contents
    title = first.strip()
    return (title[1:-1] if _in_quotes(title) else title), rest


def _in_quotes(title: str) -> bool:
    return len(title) >= 2 and title[0] == title[-1] == '"'


def _write_pyserini(passages: Iterable[Passage], stream: TextIO) -> None:
    for passage in passages:
        title = passage.title.replace("\n", " ")
        if _in_quotes(title):
            title = f'"{title}"'
        record = {"id": passage.id, "contents": f"{title}\n{passage.text}"}
        stream.write(json_line(record | _others(passage.meta, "id", "title", "contents")))


def _sniff_atlas(head: Head) -> bool:
    return (
        is_passage(head, "id", "title", "text")
        and not head.has("contents")
        and (head.has("section") or not head.has("url"))
    )


def read_objects(path: Path) -> Located[Passage]:
    """Read objects with `id`, `text` and perhaps `title`."""
    for row in json_rows(path):
        meta = _others(row.record(), "id", "title", "text")
        yield row.line, Passage(_id(row, "id"), row.optional_text("title"), row.text("text"), meta)


def _write_atlas(passages: Iterable[Passage], stream: TextIO) -> None:
    for passage in passages:
        record = {"id": passage.id, "title": passage.title, "text": passage.text}
        stream.write(json_line(record | _others(passage.meta, *record)))


BEIR = Format(
    "beir",
    "BEIR's corpus.jsonl, or its folder: _id, title, text, metadata",
    is_beir,
    _read_beir,
    _write_beir,
)
PYSERINI = Format(
    "pyserini",
    "JSON lines of pyserini and FlashRAG: id and contents, whose first line is the title",
    lambda head: is_passage(head, "id", "contents"),
    _read_pyserini,
    _write_pyserini,
)
ATLAS = Format(
    "atlas",
    "Atlas's JSON lines: id, title, text, section",
    _sniff_atlas,
    read_objects,
    _write_atlas,
)
FORMATS = (BEIR, PYSERINI, ATLAS)
