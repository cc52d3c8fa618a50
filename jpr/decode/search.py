"""What every search has in common: its limits, what it chose, and how it is run."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from math import inf, isnan

import numpy as np
from numpy.typing import NDArray

from jpr.errors import ConfigError, DataError

Prefix = tuple[int, ...]
Rows = Sequence[NDArray[np.floating]]
NextLogProbs = Callable[[Sequence[Prefix]], Rows]
"""log P(next passage | prefix) of each candidate, one row per prefix."""
Ask = Callable[[Sequence[tuple[int, Prefix]]], Rows]
"""The same for several questions: a row for each (question, prefix)."""


@dataclass(frozen=True, slots=True)
class Limits:
    """When to stop choosing."""

    k: int
    """How many passages at most; all candidates where there are fewer."""
    threshold: float = -inf
    """Stop before an expansion that scores less: `k` adapts to the question."""
    budget: int | None = None
    """What the chosen passages may cost together; one that does not fit any more is passed over."""
    costs: Sequence[int] = ()
    """What each candidate costs, its tokens say."""

    def __post_init__(self) -> None:
        if self.k < 0:
            raise ConfigError(f"k = {self.k}; ask for at least no passage")
        if isnan(self.threshold):
            raise ConfigError("the threshold is not a number")

    def check(self, n: int) -> None:
        """Refuse costs that do not fit the candidates."""
        if self.budget is not None and len(self.costs) != n:
            raise ConfigError(f"{len(self.costs)} costs for {n} candidates; give each its own")


@dataclass(frozen=True, slots=True)
class Node:
    """An expansion that was made: `passage` after `prefix`."""

    prefix: Prefix
    passage: int
    log_prob: float
    score: float
    """The log-probability times the length penalty: what expansions compete by."""
    is_new: bool
    """Whether the passage had not been chosen before, under another prefix."""
    instead_of: tuple[tuple[Prefix, int, float], ...] = ()
    """The next best expansions it was preferred to: prefix, passage, score."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """What a search chose, and how."""

    nodes: tuple[Node, ...]

    @property
    def passages(self) -> tuple[int, ...]:
        """The chosen passages, in the order in which they were found."""
        return tuple(node.passage for node in self.nodes if node.is_new)

    @property
    def depth(self) -> int:
        """The length of the longest prefix that was chosen from, with its passage."""
        return max((len(node.prefix) + 1 for node in self.nodes), default=0)


Search = Generator[Sequence[Prefix], Rows, Decoded]


class Chosen:
    """The passages chosen so far, against the limits."""

    def __init__(self, limits: Limits, n: int, nodes: Sequence[Node] = ()) -> None:
        """Begin with expansions that were made already."""
        self._limits, self._k = limits, min(limits.k, n)
        self.nodes: list[Node] = []
        self.set: set[int] = set()
        self.spent = 0
        for node in nodes:
            self.add(node)

    @property
    def full(self) -> bool:
        """Whether nothing more is to be chosen."""
        return len(self.set) >= self._k

    def fits(self, passage: int) -> bool:
        """Tell whether the budget allows a passage."""
        if self._limits.budget is None or passage in self.set:
            return True
        return self.spent + self._limits.costs[passage] <= self._limits.budget

    def add(self, node: Node) -> None:
        """Take an expansion."""
        self.nodes.append(node)
        if node.is_new and self._limits.budget is not None:
            self.spent += self._limits.costs[node.passage]
        self.set.add(node.passage)

    def decoded(self) -> Decoded:
        """Return what was chosen."""
        return Decoded(tuple(self.nodes))


def checked(rows: Rows, n: int, count: int) -> Rows:
    """Refuse what is no distribution over the candidates."""
    if len(rows) != count or any(len(row) != n for row in rows):
        raise DataError(f"the model gave other than {count} rows of {n} log-probabilities")
    if any(np.isnan(row).any() for row in rows):
        raise DataError("the model gave a log-probability that is not a number; are its weights?")
    return rows


def decode(search: Search, next_log_probs: NextLogProbs) -> Decoded:
    """Run one search.

    >>> from jpr.decode import sequence
    >>> table = {(): [-0.1, -0.2, -9.0], (0,): [-9.0, -9.0, -0.1]}
    >>> scores = lambda prefixes: [np.array(table[prefix]) for prefix in prefixes]
    >>> decode(sequence(3, Limits(2)), scores).passages  # after passage 0, 2 adds more than 1
    (0, 2)
    """
    return decode_many([search], lambda wanted: next_log_probs([prefix for _, prefix in wanted]))[0]


def decode_many(searches: Sequence[Search], ask: Ask) -> list[Decoded]:
    """Run searches side by side; the model is asked for (number of the search, prefix) pairs."""
    results: dict[int, Decoded] = {}
    wanted: dict[int, Sequence[Prefix]] = {}
    for number, search in enumerate(searches):
        _advance(number, search, None, wanted, results)
    while wanted:
        pairs = [(number, prefix) for number, prefixes in wanted.items() for prefix in prefixes]
        rows = iter(ask(pairs))
        asked, wanted = wanted, {}
        for number, prefixes in asked.items():
            given = [next(rows) for _ in prefixes]
            _advance(number, searches[number], given, wanted, results)
    return [results[number] for number in range(len(searches))]


def _advance(
    number: int,
    search: Search,
    rows: Rows | None,
    wanted: dict[int, Sequence[Prefix]],
    results: dict[int, Decoded],
) -> None:
    """Go on with a search until it asks for more or has ended."""
    try:
        wanted[number] = next(search) if rows is None else search.send(rows)
    except StopIteration as end:
        results[number] = end.value
