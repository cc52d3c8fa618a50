"""Settings: frozen dataclasses made of TOML tables, of JSON records or of `--set KEY=VALUE` pairs.

A dataclass of settings checks its values in `__post_init__`, with `reject`.
"""

import copy
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from difflib import get_close_matches
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from jpr.errors import ConfigError, FormatError
from jpr.io.checksums import unsealed
from jpr.io.json_files import read_object

T = TypeVar("T")


class SettingsError(ConfigError):
    """Values that a dataclass of settings does not accept, one sentence for each."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = list(problems)


def reject(problems: Sequence[str]) -> None:
    """Raise a SettingsError if there are problems."""
    if problems:
        raise SettingsError(problems)


def not_one_of(settings: object, **allowed: Sequence[str]) -> list[str]:
    """Return a problem for each of these fields whose value is not allowed."""
    return [
        f"{name} = {value!r}; choose one of {', '.join(choices)}"
        for name, choices in allowed.items()
        if (value := getattr(settings, name)) not in choices
    ]


def below(settings: object, minimum: int, *names: str) -> list[str]:
    """Return a problem for each of these fields whose value is below the minimum."""
    return [
        f"{name} = {value}; give at least {minimum}"
        for name in names
        if (value := getattr(settings, name)) < minimum
    ]


def parse_settings(cls: type[T], pairs: Sequence[str], option: str = "--set") -> T:
    """Make settings of the `KEY=VALUE` pairs of an option; a key is a field's name, `-` or `_`.

    A field called `lambda_` has the key `lambda`. Of several pairs with one key the last counts;
    those of a tuple are collected.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Options:
    ...     beta: float = 2.0
    ...     any_text: bool = False
    >>> parse_settings(Options, ["beta=1", "any-text=true"])
    Options(beta=1.0, any_text=True)
    """
    hints = get_type_hints(cls)
    given: dict[str, Any] = {}
    for pair in pairs:
        key, text = _split(pair, _keys(hints), option)
        name = key.replace("-", "_")
        name = f"{name}_" if f"{name}_" in hints else name
        kind = hints.get(name)
        value = _value_of(text, kind)
        if get_origin(kind) is tuple and not isinstance(value, list):
            value = [*given.get(name, []), value]
        given[name] = value
    return parse_table(cls, given, option)


def parse_table(cls: type[T], given: object, where: str) -> T:
    """Make settings of a TOML table; the error names all problems at once."""
    problems: list[str] = []
    made = _make(cls, given, "", problems)
    if problems or made is None:
        raise ConfigError(f"{where}: " + "; ".join(problems))
    return made


def parse_section(cls: type[T], record: Mapping[str, object], name: str, file: Path) -> T:
    """Make settings of an object within the JSON record that a file holds."""
    try:
        return parse_table(cls, record.get(name), name)
    except ConfigError as error:
        raise FormatError(file, 0, f"its {name} is not known: {error}; copy it again") from error


def read_sealed(cls: type[T], file: Path, format: int) -> T:
    """Read a sealed record of this format, such as a manifest, as a dataclass."""
    record = read_object(file)
    if record.get("format") != format:
        problem = f"format {record.get('format')} is not supported; this version reads {format}"
        raise FormatError(file, 0, problem)
    problems: list[str] = []
    made = _make(cls, unsealed(file, record), "", problems)
    if made is None:
        raise FormatError(file, 0, f"is damaged ({'; '.join(problems)}); copy or make it again")
    return made


def read_tables(path: Path, changes: Sequence[str] = ()) -> dict[str, object]:
    """Read a TOML file and apply changes such as `loop.steps=100`."""
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # not UTF-8, or not TOML
        raise ConfigError(f"{path}: not a TOML file: {error}") from error
    return apply_changes(given, changes)


def apply_changes(given: Mapping[str, object], changes: Sequence[str]) -> dict[str, object]:
    """Return a copy of the tables with these values replaced, each `table.key=value`."""
    changed: dict[str, object] = copy.deepcopy(dict(given))
    for change in changes:
        key, text = _split(change, "for example loop.steps=100", "--set")
        *tables, name = key.split(".")
        given_here: dict[str, Any] = changed
        for table in tables:
            inner = given_here.setdefault(table, {})
            if isinstance(inner, list) and len(inner) == 1:
                (inner,) = inner  # a list of tables stands for its only one
            if not isinstance(inner, dict):
                raise ConfigError(f"--set {key}: {table} is not a single table; edit the recipe")
            given_here = inner
        given_here[name] = _value_of(text)
    return changed


def _split(pair: str, keys: str, option: str) -> tuple[str, str]:
    key, sign, text = pair.partition("=")
    if not sign:
        raise ConfigError(f"{option} {pair}: write KEY=VALUE; {keys}")
    return key.strip(), text


def _keys(names: Iterable[str]) -> str:
    return f"known: {', '.join(name.rstrip('_') for name in names) or 'none'}"


def _value_of(text: str, kind: object = None) -> object:
    """Decode a value as in TOML; without quotes, `123` is a string if the field is one."""
    takes_text = any(one in (kind, *get_args(kind)) for one in (str, Path))
    if takes_text and text.strip()[:1] not in {"'", '"', "["}:
        return text.strip()
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text  # a bare word is a string


def _make(cls: type[T], given: object, where: str, problems: list[str]) -> T | None:
    """Make a dataclass of a table, or append its problems and return None."""
    if not isinstance(given, Mapping):
        problems.append(f"{where.rstrip('.') or repr(given)} must be a table")
        return None
    known: dict[str, Field[Any]] = {one.name: one for one in fields(cls)}  # type: ignore[arg-type]  # a dataclass
    keys = [name.rstrip("_") for name in known]
    before = len(problems)
    for name in given.keys() - known.keys():
        close = get_close_matches(str(name), keys, n=1, cutoff=0.5)
        hint = f"did you mean {close[0]}? " if close else ""
        problems.append(f"unknown key {where}{name}; {hint}{_keys(known)}")
    hints, values = get_type_hints(cls), {}
    for name, one in known.items():
        if name in given:
            key = f"{where}{name.rstrip('_')}"
            values[name] = _value(hints[name], given[name], key, problems)
        elif one.default is MISSING and one.default_factory is MISSING:
            problems.append(f"{where}{name} is missing")
    if len(problems) > before:
        return None
    try:
        return cls(**values)
    except SettingsError as error:
        problems += [f"{where}{problem}" for problem in error.problems]
        return None


def _value(kind: Any, given: object, where: str, problems: list[str]) -> object:  # noqa: ANN401
    if get_origin(kind) is UnionType:  # X | None
        if given is None:
            return None
        (kind,) = (one for one in get_args(kind) if one is not NoneType)
    if is_dataclass(kind):
        return _make(kind, given, f"{where}.", problems)  # type: ignore[arg-type]  # a class
    if get_origin(kind) in (tuple, Mapping):
        return _items(kind, given, where, problems)
    if kind is float and type(given) is int:
        return float(given)
    if kind is Path and type(given) is str:
        return Path(given)
    if type(given) is not kind:
        problems.append(f"{where} = {given!r}; give a {_NAMES[kind]}")
    return given


def _items(kind: Any, given: object, where: str, problems: list[str]) -> object:  # noqa: ANN401
    """Make a tuple of a list, or a mapping of a table."""
    if get_origin(kind) is tuple and isinstance(given, list):
        return tuple(_value(get_args(kind)[0], one, where, problems) for one in given)
    if get_origin(kind) is Mapping and isinstance(given, Mapping):
        inner = get_args(kind)[1]
        return {key: _value(inner, one, f"{where}.{key}", problems) for key, one in given.items()}
    problems.append(f"{where} must be a {'list' if get_origin(kind) is tuple else 'table'}")
    return None


_NAMES = {int: "whole number", float: "number", str: "string", bool: "boolean", Path: "path"}
