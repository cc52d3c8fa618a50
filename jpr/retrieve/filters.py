"""Filters on a passage's title and metadata, by exact match.

Each value of a field, and each item of a list, is a term of the index, `"field"=value`. A number
equals the string that writes it, and `true` equals "true"; null and nested objects cannot be
matched. A long value is represented by its hash.
"""

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence

from jpr.errors import ConfigError
from jpr.types import Passage

Value = str | int | float | bool
Filter = Mapping[str, Sequence[Value]]
"""Field → accepted values; a passage must match every field."""
Clauses = tuple[tuple[str, ...], ...]
"""A filter as terms: a passage has at least one of each clause."""
_KINDS = (str, int, float)  # bool is an int


def parse_filter(conditions: Sequence[str]) -> Filter:
    """Read `field=value` conditions; several for one field accept any of their values.

    >>> parse_filter(["source=wiki", "source=news", "year=1999"])
    {'source': ['wiki', 'news'], 'year': ['1999']}
    """
    where: dict[str, list[Value]] = {}
    for condition in conditions:
        field, equals, value = condition.partition("=")
        if not equals or not field:
            raise ConfigError(f"filter {condition!r}: write field=value")
        where.setdefault(field, []).append(value)
    return where


def clauses(where: Filter | None, known: Collection[str]) -> Clauses:
    """Return a filter, if any, as terms; equivalent filters give equal terms."""
    where = where or {}
    for field, values in where.items():
        if field not in known:
            fields = ", ".join(sorted(known))
            raise ConfigError(f"no passage has a field {field!r}; fields: {fields}")
        if isinstance(values, str) or not all(isinstance(value, _KINDS) for value in values):
            raise ConfigError(f"{field!r}: give a list of strings or numbers, not {values!r}")
    every = (sorted({term(field, value) for value in values}) for field, values in where.items())
    return tuple(sorted(map(tuple, every)))


def terms(passage: Passage) -> Iterator[str]:
    """Yield the terms under which filters find a passage."""
    if passage.title:
        yield term("title", passage.title)
    for field, value in passage.meta.items():
        for item in value if isinstance(value, list) else (value,):
            if isinstance(item, _KINDS):
                yield term(field, item)


def term(field: str, value: Value) -> str:
    """Return the term of a field's value.

    >>> term("year", 1999.0), term("new", True)
    ('"year"=1999', '"new"=true')
    """
    if isinstance(value, str):
        written = value
    elif isinstance(value, float) and value.is_integer():
        written = str(int(value))
    else:
        written = json.dumps(value)
    name = json.dumps(field)  # in quotes, no name is a prefix of another
    if len(written) > 200 or not written.isascii():
        # Every text has a hash, but not every text can be a term: an unpaired surrogate cannot.
        written = hashlib.sha256(written.encode("utf-8", "surrogatepass")).hexdigest()
        return f"{name}#{written}"
    return f"{name}={written}"
