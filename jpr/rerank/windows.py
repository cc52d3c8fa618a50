"""Candidates longer than a prompt, which are read in several: windows that overlap.

To a model each window is a candidate. Here is where windows begin and end, and how what a model
says of windows becomes what it says of candidates, so that neither models nor searches know of
them: a candidate is as likely as its best window, and contains what any of its windows contains.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from jpr.decode.answers import Evidence
from jpr.decode.search import Ask, Row, Rows
from jpr.types import Prefix

Place = tuple[int, int]
"""Where a window begins and ends."""
MOST_WINDOWS = 16
"""Windows of a candidate at most."""
MOST_OF_ALL = 1000
"""Windows of a question's candidates together at most, unless it has more candidates."""
_OVERLAP = 40  # tokens; an answer has at most 16


def windows(continues: NDArray[np.bool_], room: int, most: int) -> list[Place]:
    """Return where windows of up to `room` tokens begin and end; together they are whole words.

    `continues` (N,) says which tokens continue a word. Only a word longer than the overlap is cut,
    and the end of the last of `most` windows.

    >>> windows(np.zeros(150, dtype=np.bool_), 120, 16)
    [(0, 120), (80, 150)]
    """
    overlap, starts = min(_OVERLAP, room // 3), np.flatnonzero(~continues).tolist()
    found: list[Place] = []
    first = 0
    while first + room < len(continues) and len(found) < most - 1:
        last = first + room
        at = bisect_right(starts, last) - 1
        if at >= 0 and starts[at] >= last - overlap:
            last = starts[at]
        found.append((first, last))
        at = bisect_left(starts, last - overlap)
        first = min(starts[at], last) if at < len(starts) else last
    return [*found, (first, min(first + room, len(continues)))]


def limit_of_each(counts: Sequence[int]) -> int:
    """Return how many windows a candidate may have, given how many each would have."""
    every = range(max(counts, default=1), 1, -1)
    fitting = (most for most in every if sum(min(most, n) for n in counts) <= MOST_OF_ALL)
    return next(fitting, 1)


class Windows:
    """Which prompts of a question are windows of which candidate."""

    def __init__(self, candidates: Sequence[int]) -> None:
        """Take the position of the candidate of each prompt; those of one follow each other."""
        self._first = np.flatnonzero(np.diff(candidates, prepend=-1))
        self._bounds = list(pairwise([*self._first.tolist(), len(candidates)]))
        self.are_single = len(self._first) == len(candidates)
        """Whether each candidate has one."""

    def best(self, row: Row) -> list[int]:
        """Return the most likely window of each candidate, given log P (W,)."""
        return [first + int(np.argmax(row[first:last])) for first, last in self._bounds]

    def log_probs(self, row: Row, prefix: Prefix) -> Row:
        """Return log P of candidates (C,) after a prefix of them, given that of windows (W,)."""
        if self.are_single:
            return row
        best: Row = np.maximum.reduceat(row, self._first)
        best[list(prefix)] = -np.inf
        total = np.logaddexp.reduce(best)
        return best - total if np.isfinite(total) else best  # else nothing is left

    def evidence(self, found: Evidence) -> Evidence:
        """Return the answers of candidates, given those of windows."""
        if self.are_single:
            return found
        probs = np.maximum.reduceat(found.probs, self._first)
        return Evidence(found.answers, probs, np.logical_or.reduceat(found.contains, self._first))


def of_candidates(ask: Ask, questions: Sequence[Windows]) -> Ask:
    """Return log P of candidates, given a model that reads windows.

    A candidate in a prefix is to the model the window that was most likely to come first.
    """
    if all(one.are_single for one in questions):
        return ask
    best: dict[int, list[int]] = {}

    def ask_windows(pairs: Sequence[tuple[int, Prefix]]) -> Rows:
        new = list(dict.fromkeys(question for question, _ in pairs if question not in best))
        for question, row in zip(new, ask([(one, ()) for one in new]) if new else (), strict=True):
            best[question] = questions[question].best(row)
        given = [(question, tuple(best[question][c] for c in prefix)) for question, prefix in pairs]
        return [
            questions[question].log_probs(row, prefix)
            for (question, prefix), row in zip(pairs, ask(given), strict=True)
        ]

    return ask_windows
