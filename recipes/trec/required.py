"""The strings that every match of a regular expression must contain.

An expression then needs to run only on texts that contain it. Nothing is ever lost: syntax that
is not read here (flags, look-around, back references, fuzzy matching, nested sets) and characters
other than ASCII say nothing, and an expression of which nothing can be said runs everywhere.
Expressions are meant as `recipes.trec.scan` compiles them: any case, many lines, `regex` version
0, Unicode NFD. Texts are compared folded and without their white space.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from jpr.text import fold

SPACES = "\t"
"""Stands in a required string for any amount of white space, also none."""
LINE_END = "\n"
"""Stands in a required string for the start or the end of a line."""
ODD_CASES = ("ſ", "ı")
"""Characters that match s and I when case is ignored, though no lower case of theirs."""
_MOST_SPELLINGS = 64
"""How many strings that a part can match are enumerated, e.g. ten for `19[0-9]`."""
_ZERO_WIDTH = frozenset("bBAZ")
_SPACE_ESCAPES = frozenset("snrtfv")
_OTHER_CLASSES = frozenset("SdDwW")
_SET = re.compile(r"\[(\^?)((?:[^]\\[^]|\\.)+)\]", re.DOTALL)
_SET_OPERATORS = ("--", "||", "&&", "~~")
_NOT_ONE_CHARACTER = re.compile(r"\\[0-9A-Za-z]|[^\x20-\x7e]")
_MEMBER = re.compile(r"\\?(.)(?:-\\?(.))?")
_REPEAT = re.compile(r"([*+?]|\{(?=[\d,])(\d*)(,?)(\d*)\})[?+]?")

Clauses = tuple[frozenset[str], ...]


@dataclass(frozen=True, slots=True)
class Alternative:
    """One way for an expression to match: the match contains a string of each clause."""

    clauses: Clauses = ()
    exact: bool = False
    """Whether the match is, lower-cased, one of the strings of the only clause."""

    def needles(self) -> Clauses:
        """Return the clauses as `satisfied` takes them."""
        return tuple(frozenset(map(squeezed, clause)) for clause in self.clauses)


def folded(text: str) -> str:
    """Return a text with the same letter wherever an expression sees the same."""
    lower = fold(text)
    return lower if lower.isascii() else lower.replace("ſ", "s").replace("ı", "i")


def squeezed(text: str) -> str:
    """Return a text without its white space."""
    return "".join(text.split())


def satisfied(clauses: Clauses, text: str) -> bool:
    """Return whether a text, folded and squeezed, contains a string of each clause."""
    return all(any(string in text for string in clause) for clause in clauses)


def may_match(ways: Iterable[Clauses], text: str) -> bool:
    """Return whether a text, folded and squeezed, contains what one of the ways requires."""
    return any(satisfied(clauses, text) for clauses in ways)


def selectivity(clause: frozenset[str]) -> tuple[int, int]:
    """Return a number pair that is greater the fewer texts satisfy the clause, by a rough guess."""
    return min(map(len, clause)), -len(clause)


def alternatives_of(pattern: str) -> tuple[Alternative, ...]:
    r"""Return the ways in which a valid expression (in NFD) can match.

    >>> [sorted(way.clauses[0]) for way in alternatives_of(r"Sept?|\b19[01]\d")]
    [['sep', 'sept'], ['190', '191']]
    """
    reader = _Reader(pattern)
    try:
        parts = list(reader.parts())
    except (_UnreadError, RecursionError):
        return (Alternative(),)
    if not reader.at_end():
        return (Alternative(),)
    return tuple(
        Alternative(part.required(), exact=part.exact is not None and "" not in part.exact)
        for part in parts
    )


class _UnreadError(Exception):
    """The expression has syntax that is not read here."""


@dataclass(frozen=True, slots=True)
class _Part:
    """What is known of a part of an expression."""

    exact: frozenset[str] | None
    """All that it can match, lower-cased; None where that is not known."""
    clauses: Clauses = ()
    """Where it is not known: what it matches contains a string of each."""

    def required(self) -> Clauses:
        """Return the clauses, `exact` as one where it is known."""
        return self.clauses if self.exact is None else _clause(self.exact)


_NOTHING = frozenset(("",))
_EMPTY = _Part(_NOTHING)
_GAP = _Part(None)
_SPACES = _Part(frozenset((SPACES,)))
_LINE_END = _Part(frozenset((LINE_END,)))


def _clause(strings: frozenset[str]) -> Clauses:
    return () if "" in strings else (strings,)


def _literal(character: str) -> _Part:
    if character.isspace() and character != " ":
        return _SPACES
    return _Part(frozenset((character.lower(),))) if character.isascii() else _GAP


def _joined(parts: Iterable[_Part]) -> _Part:
    """Put parts one after another."""
    known = _NOTHING
    clauses: Clauses = ()
    whole = True
    for part in parts:
        if part.exact is not None and len(known) * len(part.exact) <= _MOST_SPELLINGS:
            known = frozenset(start + end for start, end in product(known, part.exact))
            continue
        clauses += _clause(known) + part.clauses
        known = part.exact or _NOTHING
        whole = False
    return _Part(known) if whole else _Part(None, clauses + _clause(known))


def _either(parts: Sequence[_Part]) -> _Part:
    """Combine parts of which one matches."""
    exact = frozenset[str]().union(*(part.exact or () for part in parts))
    if all(part.exact for part in parts) and len(exact) <= _MOST_SPELLINGS:
        return _Part(exact)
    required = [part.required() for part in parts]
    if not all(required):
        return _GAP
    best = (max(clauses, key=selectivity) for clauses in required)
    return _Part(None, (frozenset[str]().union(*best),))


def _repeated(part: _Part, least: int, most: int | None) -> _Part:
    if part is _SPACES or least == most == 1:
        return part
    if least > 0:
        return _Part(None, part.required())
    return _Part(part.exact | _NOTHING) if part.exact and most == 1 else _GAP


class _Reader:
    """Reads an expression from left to right."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0

    def at_end(self) -> bool:
        """Return whether all has been read."""
        return self._at >= len(self._pattern)

    def parts(self) -> Iterator[_Part]:
        """Read alternatives up to the end or a closing bracket."""
        yield self._sequence()
        while self._take("|"):
            yield self._sequence()

    def _take(self, token: str) -> bool:
        found = self._pattern.startswith(token, self._at)
        self._at += len(token) * found
        return found

    def _sequence(self) -> _Part:
        items: list[_Part] = []
        while not self.at_end() and self._pattern[self._at] not in "|)":
            items.append(self._quantified(self._item()))
        return _joined(items)

    def _item(self) -> _Part:
        if self._take("("):
            return self._group()
        if self._take("\\"):
            return self._escape()
        character = self._pattern[self._at]
        if character == "[":
            return self._set()
        if character in "*+?{":
            raise _UnreadError
        self._at += 1
        if character in "^$":
            return _LINE_END
        return _GAP if character == "." else _literal(character)

    def _group(self) -> _Part:
        if self._take("?") and not self._take(":"):
            raise _UnreadError
        part = _either(list(self.parts()))
        if not self._take(")"):
            raise _UnreadError
        return part

    def _escape(self) -> _Part:
        character = self._pattern[self._at]
        self._at += 1
        if character in _ZERO_WIDTH:
            return _EMPTY
        if character in _SPACE_ESCAPES:
            return _SPACES
        if character in _OTHER_CLASSES:
            return _GAP
        if character.isalnum():
            raise _UnreadError
        return _literal(character)

    def _set(self) -> _Part:
        found = _SET.match(self._pattern, self._at)
        if not found or any(operator in found[2] for operator in _SET_OPERATORS):
            raise _UnreadError
        self._at = found.end()
        if found[1] or _NOT_ONE_CHARACTER.search(found[2]):
            return _GAP
        spans = [(ord(first), ord(last or first)) for first, last in _MEMBER.findall(found[2])]
        if sum(last - first + 1 for first, last in spans) > _MOST_SPELLINGS:
            return _GAP
        members = (chr(code) for first, last in spans for code in range(first, last + 1))
        return _Part(frozenset(member.lower() for member in members))

    def _quantified(self, part: _Part) -> _Part:
        found = _REPEAT.match(self._pattern, self._at)
        if not found:
            return part
        self._at = found.end()
        if self._pattern[self._at : self._at + 1] in tuple("*+?{"):
            raise _UnreadError
        mark, least, comma, most = found.groups()
        if mark in "*+?":
            return _repeated(part, int(mark == "+"), 1 if mark == "?" else None)
        if not comma:
            return _repeated(part, int(least), int(least))
        return _repeated(part, int(least or 0), int(most) if most else None)
