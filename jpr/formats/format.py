"""A file format as a value: how to recognize, read and write it.

Reading through a `RecordKind` gives every format the same checks.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Generic, TextIO, TypeVar

from jpr.errors import ConfigError, FormatError
from jpr.io.json_files import iter_json
from jpr.io.text_files import read_lines

T = TypeVar("T")
_COUNT = re.compile("0|[1-9][0-9]{0,17}")
_KINDS = ("jpr.formats.questions", "jpr.formats.runs", "jpr.formats.corpus")
Located = Iterator[tuple[int, T]]
"""Records with the line each begins on (0 if the file has no lines)."""
Write = Callable[[Iterable[Any], TextIO], None]  # writes records to a stream


@dataclass(frozen=True, slots=True)
class Head:
    """The part of a file that recognition may look at: nothing past its first record."""

    path: Path
    line: str  # the first line that is not blank; empty for a folder
    value: Any  # the first JSON value (of an array: its first item); None if the file is not JSON
    broken: FormatError | None = None
    """The error in the first JSON value, if the file begins like JSON."""

    def has(self, *keys: str, **kinds: type) -> bool:
        """Return whether the first JSON value is an object with these keys, and these of a kind."""
        return is_record(self.value, *keys, **kinds)

    def has_any(self, *keys: str) -> bool:
        """Return whether the first JSON value is an object with one of these keys."""
        return any(map(self.has, keys))

    def first_of(self, key: str) -> "Head":
        """Return the first item of the list under a key as if it were the file's first value."""
        items = self.value[key] if self.has(**{key: list}) else None
        return Head(self.path, self.line, items[0] if items else None)


def is_record(value: object, *keys: str, **kinds: type) -> bool:
    """Return whether a JSON value is an object with all these keys, and these of a kind."""
    if not isinstance(value, dict) or not all(key in value for key in keys):
        return False
    return all(isinstance(value.get(key), kind) for key, kind in kinds.items())


@dataclass(frozen=True, slots=True)
class Format(Generic[T]):
    """A file format."""

    name: str  # the value of `--from` and `--to`
    about: str  # one line for `jpr validate` and the documentation
    sniff: Callable[[Head], bool]
    read: Callable[[Path], Located[T]]
    write: Write | None = None


def file_format(
    name: str, sniff: Callable[[Head], bool], write: Write | None = None
) -> Callable[[Callable[[Path], Located[T]]], Format[T]]:
    """Make a format of the function that reads a file; its docstring says what the format is."""
    return lambda read: Format(name, (read.__doc__ or "").removesuffix("."), sniff, read, write)


class Formats(Generic[T]):
    """The formats of one kind of record; their modules are imported when they are first used."""

    def __init__(self, package: str, *modules: str) -> None:
        """Name the modules of a package that define `FORMATS`."""
        self._modules = [f"{package}.{module}" for module in modules]

    def __iter__(self) -> Iterator[Format[T]]:
        for module in self._modules:
            yield from import_module(module).FORMATS


def head_of(path: Path) -> Head:
    """Read as little of a file as its recognition needs."""
    if path.is_dir():
        return Head(path, "", None)
    line = next((text for _, text in read_lines(path) if text.strip()), "")
    if not line:
        raise FormatError(path, 0, "the file is empty; was its download or export cut short?")
    if not line.lstrip().startswith(("{", "[")):
        return Head(path, line, None)
    try:
        return Head(path, line, next((value for _, value in iter_json(path)), None))
    except FormatError as error:
        return Head(path, line, None, error)  # it may be something else, e.g. wiki markup


def detect(path: Path, formats: Iterable[Format[T]], name: str | None = None) -> Format[T]:
    """Return the format called `name`, or the one that recognizes the file."""
    if name is not None:
        return _named(formats, name, f"unknown format {name!r}; known:")
    head = head_of(path)
    found = _sniff(formats, head)
    if len(found) == 1:
        return found[0]
    if not found and head.broken:
        raise head.broken
    names = ", ".join(format.name for format in found or formats)
    problem = f"could be any of {names}"
    if not found:
        kinds = (import_module(name).KIND for name in _KINDS)
        held = next((f"is a file of {one.name}" for one in kinds if _sniff(one.formats, head)), "")
        problem = f"{held or 'unknown format'}; this command reads {names}"
    remedy = "docs/formats.md shows examples of them"
    if any(format.write for format in formats):
        remedy = "if it has one of these formats, jpr convert FILE OUT --from NAME --to NAME helps"
    raise FormatError(path, 0, f"{problem}; {remedy}")


def _sniff(formats: Iterable[Format[T]], head: Head) -> list[Format[T]]:
    return [format for format in formats if format.sniff(head)]


def writable(formats: Iterable[Format[T]], name: str) -> Format[T]:
    """Return the format called `name`, which must be one that can be written."""
    known = [format for format in formats if format.write]
    return _named(known, name, f"format {name!r} cannot be written; choose one of")


def _named(formats: Iterable[Format[T]], name: str, problem: str) -> Format[T]:
    for format in formats:
        if format.name == name:
            return format
    raise ConfigError(f"{problem} {', '.join(format.name for format in formats)}")


@dataclass(frozen=True, slots=True)
class RecordKind:
    """A kind of record: its formats, and how all of them are read and written."""

    name: str
    formats: Iterable[Format[Any]]
    key: Callable[[Any], str]  # returns the id of a record; no two in a file may have the same
    checked: Callable[[Iterable[Any]], Iterable[Any]] = iter
    """Refuses records that could not be read back."""

    def read(self, path: str | Path, format: str | None = None) -> Iterable[Any]:
        """Stream the records of a file; refuse an empty file and an id that comes twice."""
        path = Path(path)
        found = detect(path, self.formats, format)
        seen = _Seen()
        count = 0
        for line, record in found.read(path):
            count += 1
            id = self.key(record)
            if not seen.add(id):
                raise FormatError(path, line, f"id {id!r} was used before; ids must differ")
            yield record
        if not count:
            raise FormatError(path, 0, f"holds no record of format {found.name}")

    def write(self, records: Iterable[Any], stream: TextIO, format: str) -> None:
        """Write records in a format."""
        write = writable(self.formats, format).write
        assert write is not None
        write(self.checked(records), stream)


class _Seen:
    """A set of ids that takes no memory while they count up by one, as DPR's passage ids do."""

    def __init__(self) -> None:
        self._first = self._next = 0
        self._others: set[str] = set()

    def add(self, id: str) -> bool:
        number = int(id) if _COUNT.fullmatch(id) else -1
        if number >= 0 and self._first == self._next:
            self._first = self._next = number
        if number == self._next:
            self._next += 1
            return id not in self._others
        if self._first <= number < self._next or id in self._others:
            return False
        self._others.add(id)
        return True
