"""Records of files and the gold answers in them: one set of rules for questions and for runs.

An alias is a string accepted for an answer. Nulls and blank strings are not aliases, a number is
an alias as it is written, and an answer without an alias is dropped. A flat list is ONE answer's
aliases, a list of lists holds distinct answers. The answers of several annotators are united:
those that share an alias are one.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from jpr.errors import DataError, FormatError
from jpr.formats.format import Format, Head, Located, Write, file_format
from jpr.io.json_files import iter_json
from jpr.text import normalize_answer
from jpr.types import Passage, Question

T = TypeVar("T")
Aliases = tuple[str, ...]
Answers = tuple[Aliases, ...]
_KINDS: dict[type, str] = {
    str: "a string", list: "a list", dict: "an object", int: "a whole number", float: "a number",
    bool: "true or false", type(None): "null",
}  # fmt: skip


@dataclass(slots=True)  # not frozen, which makes it three times as slow to create
class Row:
    """A JSON value that knows its place in a file, for error messages."""

    value: Any
    path: Path
    line: int
    position: int = 0  # the place, from 0, in the file or list that holds the value
    name: str = "record"  # the key of the value
    part: str = ""  # the part of the line or the file that holds the value, as errors name it

    def error(self, problem: str) -> FormatError:
        """Return an error at this row."""
        return FormatError(self.path, self.line, self.part + problem)

    def record(self) -> dict[str, Any]:
        """Return the row, which must be an object."""
        if not isinstance(self.value, dict):
            raise self.error(f"a JSON object is expected, not {_kind_of(self.value)}")
        return self.value

    def field(self, key: str, kind: type[T]) -> T:
        """Return the value of a key, which must exist and be of this kind."""
        record = self.record()
        if key not in record:
            keys = ", ".join(sorted(map(str, record))[:8])
            raise self.error(f"key {key!r} is missing; there are: {keys}")
        value = record[key]
        if not isinstance(value, kind):
            raise self.error(f"{key!r} should be {_KINDS[kind]}, not {_kind_of(value)}")
        return value

    def at(self, key: str, kind: type = object) -> "Row":
        """Return the value of a key, which must be of this kind, as a row."""
        value: Any = self.field(key, kind)
        return Row(value, self.path, self.line, self.position, key, self.part)

    def each(self, part: str = "") -> Iterator["Row"]:
        """Yield the items of the row, which must be a list; errors count them as this part."""
        if not isinstance(self.value, list):
            raise self.error(f"{self.name!r} should be a list, not {self.value!r:.40}")
        for position, value in enumerate(self.value):
            inner = f"{self.part}{part} {position + 1}: " if part else self.part
            yield Row(value, self.path, self.line, position, self.name, inner)

    def questions(self) -> Iterator["Row"]:
        """Yield the values of the row, an object whose keys are the questions' ids."""
        for position, (id, value) in enumerate(self.record().items()):
            yield Row(value, self.path, self.line, position, id, f"question {id!r}: ")

    def has(self, key: str) -> bool:
        """Return whether the row is an object in which a key has a value other than null."""
        return isinstance(self.value, dict) and self.value.get(key) is not None

    def first(self, keys: Sequence[str]) -> "Row | None":
        """Return the value of the first of the keys that has one other than null."""
        return next((self.at(key) for key in keys if self.has(key)), None)

    def without(self, *keys: str) -> dict[str, Any]:
        """Return the row, which must be an object, without these keys."""
        return {key: value for key, value in self.record().items() if key not in keys}

    def text(self, key: str) -> str:
        """Return the string under a key."""
        return self.field(key, str)

    def optional_text(self, key: str) -> str:
        """Return the string under a key, or "" if it is missing or null."""
        return self.text(key) if self.has(key) else ""

    def id(self, key: str) -> str:
        """Return the id under a key."""
        return self.at(key).as_id()

    def as_id(self) -> str:
        """Return the row as an id: a string or a whole number."""
        if isinstance(self.value, bool) or not isinstance(self.value, str | int):
            problem = f"{self.name!r} should be a string or a whole number"
            raise self.error(f"{problem}, not {self.value!r:.40}")
        return str(self.value)

    def id_or_position(self, key: str) -> str:
        """Return the id under a key, or the row's position if there is none."""
        return self.id(key) if self.has(key) else str(self.position)

    def aliases(self) -> Aliases:
        """Return the row as one answer: a string, or a list of the strings accepted for it."""
        listed = self.value if isinstance(self.value, list) else [self.value]
        if any(isinstance(alias, list | dict | bool) for alias in listed):
            raise self.error(f"an answer in {self.name!r} should be a string or a list of strings")
        known = (str(alias) for alias in listed if alias is not None)
        return tuple(dict.fromkeys(alias for alias in known if alias.strip()))

    def distinct(self) -> Answers:
        """Return the row as a list whose every item is an answer of its own."""
        return kept(item.aliases() for item in self.each())

    def nested(self) -> Answers:
        """Return distinct answers from a list that must hold lists only."""
        if not is_nested(self.value):
            raise self.error(
                "each answer should be a list of its accepted strings, [[alias, …], …]"
            )
        return self.distinct()

    def answers(self) -> Answers:
        """Return distinct answers from a list of lists, one answer from a flat list."""
        if is_nested(self.value):
            return self.distinct()
        if isinstance(self.value, list) and any(isinstance(item, list) for item in self.value):
            raise self.error(f"{self.name!r} mixes strings and lists; use a list per answer")
        return kept([self.aliases()])

    def annotations(self) -> tuple[Answers, ...]:
        """Return the answers of each annotator in a list; one without an answer is left out."""
        return tuple(filter(None, map(_annotation, self.each())))


def _kind_of(value: object) -> str:
    return _KINDS.get(type(value), type(value).__name__)


def is_nested(value: object) -> bool:
    """Return whether a JSON value is a list that holds nothing but lists."""
    return isinstance(value, list) and all(isinstance(item, list) for item in value)


def kept(answers: Iterable[Aliases]) -> Answers:
    """Return the answers that have an alias."""
    return tuple(filter(None, answers))


def _annotation(row: Row) -> Answers:
    """Read one annotator's answers from AmbigNQ's object, or from our list of lists.

    A `singleAnswer` is one answer; every pair of `multipleQAs` is one.
    """
    if isinstance(row.value, list):
        return row.nested()
    kind = row.text("type")
    if kind == "singleAnswer":
        return kept([row.at("answer").aliases()])
    if kind == "multipleQAs":
        return kept(pair.at("answer").aliases() for pair in row.at("qaPairs").each())
    raise row.error(f"annotation of type {kind!r}; known are singleAnswer and multipleQAs")


def json_rows(path: Path) -> Iterator[Row]:
    """Yield the records of JSON lines or of a JSON array."""
    for position, (line, value) in enumerate(iter_json(path)):
        yield Row(value, path, line, position)


def json_documents(path: Path) -> Iterator[Row]:
    """Yield the one document of a file; its parts have no line."""
    for _, value in iter_json(path):
        yield Row(value, path, 0)


def rows_by_id(path: Path) -> Iterator[Row]:
    """Yield the values of a file that is one object, question id -> value."""
    for document in json_documents(path):
        yield from document.questions()


def json_format(
    name: str,
    sniff: Callable[[Head], bool],
    write: Write | None = None,
    rows: Callable[[Path], Iterable[Row]] = json_rows,
) -> Callable[[Callable[[Row], T]], Format[T]]:
    """Make a format of the function that reads a row; its docstring says what the format is."""

    def made(record_of: Callable[[Row], T]) -> Format[T]:
        def read(path: Path) -> Located[T]:
            return ((row.line, record_of(row)) for row in rows(path))

        read.__doc__ = record_of.__doc__
        return file_format(name, sniff, write)(read)

    return made


def json_writer(record_of: Callable[[Any], Mapping[str, object]]) -> Write:
    """Make a writer of JSON lines."""
    return lambda records, stream: stream.writelines(map(json_line, map(record_of, records)))


def merged(answers: Iterable[Aliases]) -> Answers:
    """Merge answers that share a normalized alias, directly or through others.

    Answers and aliases keep the order in which they first appear.

    >>> merged([("18", "eighteen"), ("21",), ("Eighteen!", "18 years")])
    (('18', 'eighteen', 'Eighteen!', '18 years'), ('21',))
    """
    listed = kept(answers)
    leader: dict[str, str] = {}

    def find(alias: str) -> str:
        key = normalize_answer(alias) or alias.strip().lower()  # "The The" has no normal form
        leader.setdefault(key, key)
        while leader[key] != key:
            key = leader[key]
        return key

    for aliases in listed:
        for alias in aliases:
            leader[find(alias)] = find(aliases[0])
    together: dict[str, dict[str, None]] = {}
    for aliases in listed:
        together.setdefault(find(aliases[0]), {}).update(dict.fromkeys(aliases))
    return tuple(map(tuple, together.values()))


def united(annotations: Iterable[Iterable[Aliases]]) -> tuple[Answers, tuple[Answers, ...]]:
    """Return a question's `answers` and `annotations` from the answers of each annotator.

    `answers`, which retrieval has to cover, is the merged union; `annotations` keeps each
    annotator's answers as they are, and is empty if that would only repeat `answers`.
    """
    given = tuple(dict.fromkeys(filter(None, map(kept, annotations))))
    union = merged(answer for annotation in given for answer in annotation)
    return union, () if given in ((), (union,)) else given


def question_record(question: Question) -> dict[str, object]:
    """Return a question as a record of our own files."""
    fields = {"annotations": question.annotations, "regex": question.regex}
    known = {key: value for key, value in fields.items() if value}
    return {"id": question.id, "question": question.text, "answers": question.answers, **known}


def passage_record(passage: Passage, **fields: object) -> dict[str, object]:
    """Return a passage as a record of our own files, with more fields before its meta."""
    record = {"id": passage.id, "title": passage.title, "text": passage.text, **fields}
    return with_meta(record, passage.meta)


def with_meta(record: Mapping[str, object], meta: Mapping[str, object]) -> dict[str, object]:
    """Add a passage's meta after its own fields, which win if a key is the same."""
    return {**record, **meta, **record}


def json_line(record: Mapping[str, object]) -> str:
    """Return a record as a line of JSON that UTF-8 can encode."""
    try:
        text = json.dumps(record, ensure_ascii=False)
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair, which only an escape can hold
        text = json.dumps(record)
    except (TypeError, ValueError) as error:
        raise DataError(f"a passage's meta cannot be written as JSON: {error}") from error
    return text + "\n"
