"""Passages as JSON lines: BEIR's, pyserini's (and FlashRAG's), Atlas's.

`contents` of pyserini holds the title as its first line where there is more than one line; a first
line over 255 characters (no title of Wikipedia is longer) is taken for text, and so is all of
`contents` where a `title` stands beside it, less a first line that repeats that title. Double
quotes around a title are FlashRAG's, and go. Other keys of a record become its `meta`.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TextIO

from jpr.errors import FormatError
from jpr.formats import Format, Head, Located, field_of
from jpr.jsonfile import read_json
from jpr.types import Passage

_LONGEST_TITLE = 255
_OF_QUESTIONS = ("question", "query", "answers", "answer", "ctxs", "contexts")


def is_passage(head: Head, *keys: str) -> bool:
    """Tell whether the first record has these keys and none that questions or runs have."""
    return head.has(*keys) and not any(head.has(key) for key in _OF_QUESTIONS)


def id_field(record: object, key: str, path: Path, line: int) -> str:
    """Return the id under `key`, a string or a whole number, as a string."""
    value = field_of(record, key, object, path, line)
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
        raise FormatError(path, line, f"{key!r} should be a string that is not empty, or a number")
    return str(value)


def text_field(record: object, key: str, path: Path, line: int) -> str:
    """Return the text under `key`, sure to be writable as UTF-8."""
    value = field_of(record, key, str, path, line)
    if not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            half = f"\\u{ord(value[error.start]):04x}"
            problem = f"{key!r} holds half a character ({half}); repair or remove it"
            raise FormatError(path, line, problem) from error
    return value


def title_field(record: dict[str, Any], path: Path, line: int) -> str:
    """Return the title; one that is missing or null is empty."""
    return "" if record.get("title") is None else text_field(record, "title", path, line)


def _beir_file(folder: Path) -> Path | None:
    return min(folder.glob("corpus.jsonl*"), default=None)


def is_beir(head: Head) -> bool:
    """Recognise a BEIR corpus file, or the folder that holds it."""
    if head.path.is_dir():
        return _beir_file(head.path) is not None
    return is_passage(head, "_id", "title", "text")


def _read_beir(path: Path) -> Located[Passage]:
    file = _beir_file(path) if path.is_dir() else path
    if file is None:
        raise FormatError(path, 0, "the folder holds no corpus.jsonl; name the file itself")
    for line, record in read_json(file):
        id, text = id_field(record, "_id", file, line), text_field(record, "text", file, line)
        meta = _others(record, "_id", "title", "text", "metadata")
        if record.get("metadata") is not None:
            meta |= field_of(record, "metadata", dict, file, line)
        yield line, Passage(id, title_field(record, file, line), text, meta)


def _others(record: dict[str, Any], *known: str) -> dict[str, object]:
    return {key: value for key, value in record.items() if key not in known}


def _write_beir(passages: Iterable[Passage], stream: TextIO) -> None:
    for passage in passages:
        record = {"_id": passage.id, "title": passage.title, "text": passage.text}
        _write_line({**record, "metadata": dict(passage.meta)}, stream)


def _write_line(record: Mapping[str, object], stream: TextIO) -> None:
    stream.write(json.dumps(record, ensure_ascii=False) + "\n")


def _sniff_pyserini(head: Head) -> bool:
    return is_passage(head, "id", "contents")


def _read_pyserini(path: Path) -> Located[Passage]:
    for line, record in read_json(path):
        id = id_field(record, "id", path, line)
        contents = text_field(record, "contents", path, line)
        if title := title_field(record, path, line):
            first, text = _title_and_text(contents)
            text = text if first == title else contents
        else:
            title, text = _title_and_text(contents)
        yield line, Passage(id, title, text, _others(record, "id", "title", "contents"))


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
        _write_line(record | _others(dict(passage.meta), "id", "title", "contents"), stream)


def _sniff_atlas(head: Head) -> bool:
    return (
        is_passage(head, "id", "title", "text")
        and not head.has("contents")
        and (head.has("section") or not head.has("url"))
    )


def _read_atlas(path: Path) -> Located[Passage]:
    for line, record in read_json(path):
        yield line, record_passage(record, path, line)


def record_passage(record: dict[str, Any], path: Path, line: int) -> Passage:
    """Make a passage of an object with `id`, `text` and perhaps `title`."""
    id, text = id_field(record, "id", path, line), text_field(record, "text", path, line)
    meta = _others(record, "id", "title", "text")
    return Passage(id, title_field(record, path, line), text, meta)


def _write_atlas(passages: Iterable[Passage], stream: TextIO) -> None:
    for passage in passages:
        record = {"id": passage.id, "title": passage.title, "text": passage.text}
        _write_line(record | _others(dict(passage.meta), *record), stream)


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
    _sniff_pyserini,
    _read_pyserini,
    _write_pyserini,
)
ATLAS = Format(
    "atlas", "Atlas's JSON lines: id, title, text, section", _sniff_atlas, _read_atlas, _write_atlas
)
