"""TOML tables as frozen dataclasses; all that is wrong with them is told at once.

A dataclass of settings has a method `problems`, which returns what is wrong, each in a sentence.
"""

import copy
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from jpr.errors import ConfigError

T = TypeVar("T")


def read_tables(path: Path, changes: Sequence[str] = ()) -> dict[str, object]:
    """Read a TOML file; `changes` are settings to change in it, such as `loop.steps=100`."""
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # no UTF-8, or no TOML
        raise ConfigError(f"{path}: is no TOML: {error}") from error
    return with_changes(given, changes)


def parsed(kind: type[T], given: Mapping[str, object], where: str) -> T:
    """Make settings of what a file says, or tell all that is wrong with it."""
    problems: list[str] = []
    made = _made(kind, given, "", problems)
    if problems or made is None:
        raise ConfigError(f"{where}: " + "; ".join(problems))
    return made


def with_changes(given: Mapping[str, object], changes: Sequence[str]) -> dict[str, object]:
    """Return the same settings but for those named, each as `table.key=value`."""
    changed: dict[str, object] = copy.deepcopy(dict(given))
    for change in changes:
        key, sign, text = change.partition("=")
        if not sign:
            raise ConfigError(f"--set {change}: write it as key=value, such as loop.steps=100")
        *tables, name = key.strip().split(".")
        _table(changed, tables, key)[name] = _parsed(text)
    return changed


def _table(given: dict[str, Any], tables: Sequence[str], key: str) -> dict[str, Any]:
    """Return the table that a key stands in; of a list of tables, its only one."""
    for table in tables:
        inner = given.setdefault(table, {})
        if isinstance(inner, list) and len(inner) == 1:
            inner = inner[0]
        if not isinstance(inner, dict):
            raise ConfigError(f"--set {key}: {table} is no single table; change the recipe")
        given = inner
    return given


def _parsed(text: str) -> object:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text  # a bare word is a string


def _made(kind: type[T], given: object, where: str, problems: list[str]) -> T | None:
    """Make a dataclass of a table; what is wrong is added to `problems`, and None comes back."""
    if not isinstance(given, Mapping):
        problems.append(f"{where.rstrip('.')} must be a table")
        return None
    known: dict[str, Field[Any]] = {one.name: one for one in fields(kind)}  # type: ignore[arg-type]  # a dataclass
    for name in given.keys() - known.keys():
        close = get_close_matches(str(name), known, n=1, cutoff=0.5)
        hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(known)}"
        problems.append(f"unknown key {where}{name}; {hint}")
    hints, values, before = get_type_hints(kind), {}, len(problems)
    for name, one in known.items():
        if name in given:
            values[name] = _value(hints[name], given[name], f"{where}{name}", problems)
        elif one.default is MISSING and one.default_factory is MISSING:
            problems.append(f"{where}{name} is missing")
    if len(problems) > before:
        return None
    made = kind(**values)
    problems += [f"{where}{problem}" for problem in _problems_of(made)]
    return made


def _problems_of(made: Any) -> list[str]:  # noqa: ANN401  # one of the dataclasses above
    found: list[str] = made.problems()
    return found


def _value(kind: Any, given: object, where: str, problems: list[str]) -> object:  # noqa: ANN401
    """Return a value as a field of this kind takes it."""
    if is_dataclass(kind):
        return _made(kind, given, f"{where}.", problems)  # type: ignore[arg-type]  # a class
    if get_origin(kind) is tuple:
        if not isinstance(given, list):
            problems.append(f"{where} must be a list")
            return ()
        inner = get_args(kind)[0]
        return tuple(_value(inner, one, where, problems) for one in given)
    if kind is float and type(given) is int:
        return float(given)
    if type(given) is not kind:
        problems.append(f"{where} = {given!r}; give a {_NAMES[kind]}")
    return given


_NAMES: Mapping[type, str] = {int: "whole number", float: "number", str: "string", bool: "boolean"}


def unlike(config: object, **allowed: Sequence[str]) -> list[str]:
    """Tell which settings are none of those that are allowed."""
    return [
        f"{name} = {value!r}; choose of {', '.join(choices)}"
        for name, choices in allowed.items()
        if (value := getattr(config, name)) not in choices
    ]


def below(config: object, least: int, *names: str) -> list[str]:
    """Tell which settings are too small."""
    return [
        f"{name} = {value}; give at least {least}"
        for name in names
        if (value := getattr(config, name)) < least
    ]
