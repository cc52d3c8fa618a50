"""All that many regular expressions match in many texts, in one pass over the texts.

Running 2,000 expressions on a million passages in turn takes days. Here strings that a match
must contain (`recipes.trec.required`) show which expressions can match in a text, and only those
are run; one that can match only a few strings is not run again to find them. The result is the
same as from running all of them.

A string is looked for by its rarest run of four bytes. Runs are hashed to slots, for a block of
texts at once; a slot that is hit by chance costs time, never a match.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from jpr.text import compile_pattern, decomposed
from recipes.trec.required import (
    LINE_END,
    ODD_CASES,
    SPACES,
    Alternative,
    Clauses,
    alternatives_of,
    folded,
    may_match,
    satisfied,
    selectivity,
    squeezed,
)

_RUN = 4
_SLOT_BITS = 20
_SPREAD = np.uint32(2654435761)  # 2**32 over the golden ratio: spreads runs over the slots
_BLOCK = 1000
_EVERYWHERE = -1
"""In place of a slot, for a string too short to have one."""

_Slots = npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class Matches:
    """What an expression matched: distinct strings, lower-cased, in the order of the texts."""

    strings: tuple[str, ...] = ()
    too_many: bool = False
    """There were more than `most`; they are not kept."""
    timed_out: bool = False
    """It was given up on a text; `strings` are those of the texts before."""


class Scanner:
    """Finds the matches of expressions (valid ones, in NFD) in texts.

    >>> Scanner(["new ?york", "x"], most=9, time_limit=1.0).scan(["New York", "NewYork"])
    {0: Matches(strings=('new york', 'newyork'), too_many=False, timed_out=False)}
    """

    def __init__(self, patterns: Sequence[str], *, most: int, time_limit: float) -> None:
        """Prepare to find up to `most` matches each, in `time_limit` seconds per text."""
        self.patterns = [compile_pattern(pattern) for pattern in patterns]
        alternatives = [alternatives_of(pattern) for pattern in patterns]
        self.required = [[way.needles() for way in ways] for ways in alternatives]
        self.watches = [
            [watch for way in ways for watch in _watches(number, way)]
            for number, ways in enumerate(alternatives)
        ]
        self.line_watches = [
            watch for watches in self.watches for watch in watches if LINE_END in watch.string
        ]
        self.most = most
        self.time_limit = time_limit

    def scan(self, texts: Sequence[str]) -> dict[int, Matches]:
        """Return the matches of each expression, by its number, that matched or was given up."""
        scan = _Scan(self, next(_blocks(texts[:: len(texts) // _BLOCK | 1]), []))
        for block in _blocks(texts):
            scan.add([decomposed(text) for text in block])
        return scan.result()


def _blocks(texts: Iterable[str]) -> Iterator[list[str]]:
    """Yield the texts some at a time: no more than a few megabytes, however long they are."""
    block: list[str] = []
    size = 0
    for text in texts:
        block.append(text)
        size += len(text)
        if len(block) >= _BLOCK or size >= _BLOCK * 1000:
            yield block
            block, size = [], 0
    if block:
        yield block


@dataclass(frozen=True, slots=True, eq=False)
class _Watch:
    """A string that makes it worth while to run an expression, if the rest is there too."""

    number: int
    """Of the expression."""
    string: str
    others: Clauses
    only: str | None
    """What alone the expression is then run to find, if that is known."""
    slots: _Slots
    """Of the string's runs of four bytes; of itself if it is shorter."""

    def fires(self, needle: str) -> bool:
        """Return whether the expression can match in a text on account of this string."""
        return self.string in needle and (not self.others or satisfied(self.others, needle))


def _watches(number: int, alternative: Alternative) -> Iterator[_Watch]:
    clauses, needles = alternative.clauses, alternative.needles()
    best = max(range(len(clauses)), key=lambda i: selectivity(needles[i]), default=0)
    others = needles[:best] + needles[best + 1 :]
    for string in clauses[best] if clauses else ("",):
        needle = re.sub(f"{LINE_END}+", LINE_END, string.replace(" ", "").replace(SPACES, ""))
        only = string.replace(LINE_END, "") if alternative.exact and SPACES not in string else None
        yield _Watch(number, needle, others, only, _string_slots(needle))


def _string_slots(string: str) -> _Slots:
    size = min(len(string), _RUN)
    return list(_slots(string.encode()))[size - 1][: len(string) - size + 1]


def _slots(text: bytes) -> Iterator[_Slots]:
    """Yield, for runs of one byte, of two, three and four, the slot of the run at each place."""
    padded = np.frombuffer(text + bytes(_RUN), np.uint8).astype(np.uint32)
    runs = np.zeros(len(text), np.uint32)
    for size in range(_RUN):
        runs |= padded[size : size + len(text)] << np.uint32(8 * size)
        yield runs * _SPREAD >> np.uint32(32 - _SLOT_BITS)


def _hits(needles: Sequence[str], watched: npt.NDArray[np.bool_]) -> Iterator[list[int]]:
    """Yield the watched slots that each text hits."""
    encoded = [needle.encode(errors="replace") for needle in needles]
    ends = np.cumsum([len(text) for text in encoded])
    hits = []
    for slots in _slots(b"".join(encoded)):
        places = np.flatnonzero(watched[slots])
        owners = np.searchsorted(ends, places, side="right")
        hits.append(owners << _SLOT_BITS | slots[places])
    owners, slots_hit = np.divmod(np.unique(np.concatenate(hits)), 1 << _SLOT_BITS)
    for part in np.split(slots_hit, np.searchsorted(owners, np.arange(1, len(needles)))):
        yield part.tolist()


def _needle(text: str) -> str:
    return f"{LINE_END}{squeezed(folded(text))}{LINE_END}"


class _Scan:
    """The state of one pass: what was found, and what is still worth looking for."""

    def __init__(self, scanner: Scanner, sample: Sequence[str]) -> None:
        self._scanner = scanner
        self._found: list[dict[str, None]] = [{} for _ in scanner.patterns]
        self._over: dict[int, Matches] = {}
        self._live: dict[int, list[_Watch]] = defaultdict(list)
        self._slot: dict[_Watch, int] = {}
        self._watched = np.zeros(1 << _SLOT_BITS, np.bool_)
        *_, slots = _slots("".join(map(_needle, sample)).encode(errors="replace"))
        frequency = np.bincount(slots, minlength=1 << _SLOT_BITS)
        for watches in scanner.watches:
            for watch in watches:
                self._watch(watch, frequency)

    def _watch(self, watch: _Watch, frequency: npt.NDArray[np.int64]) -> None:
        slot = _EVERYWHERE
        if len(watch.slots):
            slot = int(watch.slots[frequency[watch.slots].argmin()])
            self._watched[slot] = True
        self._slot[watch] = slot
        self._live[slot].append(watch)

    def _unwatch(self, watches: Iterable[_Watch]) -> None:
        for watch in watches:
            slot = self._slot[watch]
            if watch in self._live[slot]:
                self._live[slot].remove(watch)
            if not self._live[slot] and slot != _EVERYWHERE:
                self._watched[slot] = False

    def add(self, texts: Sequence[str]) -> None:
        """Look through texts (in NFD)."""
        needles = [_needle(text) for text in texts]
        for text, needle, hits in zip(texts, needles, _hits(needles, self._watched), strict=True):
            for number in self._candidates(text, needle, hits):
                if number not in self._over:
                    self._run(number, text)

    def result(self) -> dict[int, Matches]:
        """Return all that was found."""
        found = {i: Matches(tuple(strings)) for i, strings in enumerate(self._found) if strings}
        return found | self._over

    def _candidates(self, text: str, needle: str, hits: Iterable[int]) -> Iterable[int]:
        if any(odd in text for odd in ODD_CASES):  # what was found may be here in other letters
            required = enumerate(self._scanner.required)
            return [number for number, ways in required if may_match(ways, needle)]
        candidates = {
            watch.number
            for slot in (_EVERYWHERE, *hits)
            for watch in self._live[slot]
            if watch.fires(needle)
        }
        if LINE_END in text:
            candidates.update(
                watch.number
                for watch in self._scanner.line_watches
                if squeezed(watch.string) in needle
            )
        return candidates

    def _run(self, number: int, text: str) -> None:
        found = self._found[number]
        matches = self._scanner.patterns[number].finditer(text, timeout=self._scanner.time_limit)
        try:
            strings = dict.fromkeys(match.group().lower() for match in matches)
        except TimeoutError:
            self._give_up(number, Matches(tuple(found), timed_out=True))
            return
        new = [string for string in strings if string and string not in found]
        found.update(dict.fromkeys(new))
        if len(found) > self._scanner.most:
            self._give_up(number, Matches(too_many=True))
        elif new:
            self._unwatch(watch for watch in self._scanner.watches[number] if watch.only in new)

    def _give_up(self, number: int, matches: Matches) -> None:
        self._over[number] = matches
        self._unwatch(self._scanner.watches[number])
