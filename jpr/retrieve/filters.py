"""Filters by what is known of a passage: its title and its meta, compared exactly.

Each value of each field is one term of the index, `"field"=value`; of a list, each item. A number
and the string that writes it are the same value, so are `true` and "true"; null, and what is nested
deeper than a list, cannot be asked for. A long value is represented by its hash.
"""

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache

from jpr.errors import ConfigError
from jpr.types import Passage

Value = str | int | float | bool
Filter = Mapping[str, Sequence[Value]]
"""Field → the values accepted there, any of them; all fields must agree."""
Clauses = tuple[tuple[str, ...], ...]
"""A filter as terms: of each clause, at least one must be there."""
_KINDS = (str, int, float)  # bool is an int
_LONGEST = 200


def parse_filter(conditions: Sequence[str]) -> Filter:
    """Read `field=value` conditions; a field that comes several times accepts any of its values.

    >>> parse_filter(["source=wiki", "source=news", "year=1999"])
    {'source': ['wiki', 'news'], 'year': ['1999']}
    """
    where: dict[str, list[Value]] = {}
    for condition in conditions:
        field, equals, value = condition.partition("=")
        if not equals or not field:
            raise ConfigError(f"{condition!r} is no condition; write field=value")
        where.setdefault(field, []).append(value)
    return where


def clauses(where: Filter, known: Collection[str]) -> Clauses:
    """Return a filter as terms, the same for filters that mean the same."""
    for field, values in where.items():
        if field not in known:
            there = ", ".join(sorted(known))
            raise ConfigError(f"no passage has a field {field!r}; there are: {there}")
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
        spelt = value
    elif isinstance(value, float) and value.is_integer():
        spelt = str(int(value))
    else:
        spelt = json.dumps(value)
    if len(spelt) > _LONGEST or not spelt.isascii():
        # Any text has a hash; not every text, such as half a surrogate pair, can be a term.
        spelt = hashlib.sha256(spelt.encode("utf-8", "surrogatepass")).hexdigest()
        return f"{_quoted(field)}#{spelt}"
    return f"{_quoted(field)}={spelt}"


@lru_cache(maxsize=1024)
def _quoted(field: str) -> str:
    """Return a field's name such that no other name begins with it."""
    return json.dumps(field)
