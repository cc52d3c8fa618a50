"""What all searches share: limits, the selection so far, and how they are run."""

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jpr.errors import ConfigError, DataError
from jpr.types import Node, Prefix

Row = NDArray[np.floating]
Rows = Sequence[Row]
Ask = Callable[[Sequence[tuple[int, Prefix]]], Rows]
"""log P(next passage | prefix) of each candidate, a row for each (question, prefix)."""
Search = Generator[Sequence[Prefix], Rows, tuple[Node, ...]]


@dataclass(frozen=True, slots=True)
class Limits:
    """When to stop choosing."""

    k: int
    """The maximum number of passages."""
    budget: int | None = None
    """Maximum total cost of the chosen passages; a passage that does not fit is skipped."""
    costs: Sequence[int] = ()
    """The cost of each candidate, for example its tokens."""

    def __post_init__(self) -> None:
        if self.k < 0:
            raise ConfigError(f"k = {self.k}; k must be 0 or more")


def chosen_passages(nodes: Iterable[Node]) -> tuple[int, ...]:
    """Return the distinct passages of a search, in the order in which they were found."""
    return tuple(node.passage for node in nodes if node.is_new)


class Selection:
    """The expansions made so far, against the limits."""

    def __init__(self, limits: Limits, n: int, nodes: Sequence[Node] = ()) -> None:
        """Start with expansions that were made already, for n candidates."""
        if limits.budget is not None and len(limits.costs) != n:
            raise ConfigError(f"{len(limits.costs)} costs for {n} candidates; give one for each")
        self._limits, self._k = limits, min(limits.k, n)
        self.nodes: list[Node] = []
        self.passages: set[int] = set()
        self._spent = 0
        for node in nodes:
            self.add(node)

    @property
    def is_full(self) -> bool:
        """Whether k passages are chosen."""
        return len(self.passages) >= self._k

    def fits(self, passage: int) -> bool:
        """Return whether the budget allows a passage."""
        if self._limits.budget is None or passage in self.passages:
            return True
        return self._spent + self._limits.costs[passage] <= self._limits.budget

    def add(self, node: Node) -> None:
        """Add an expansion."""
        self.nodes.append(node)
        self.passages.add(node.passage)
        if node.is_new and self._limits.budget is not None:
            self._spent += self._limits.costs[node.passage]


def checked(rows: Rows, n: int) -> Rows:
    """Return the rows, after a check that each is a distribution over n candidates."""
    if any(len(row) != n for row in rows):
        raise DataError(f"the model did not return rows of {n} log-probabilities")
    if any(np.isnan(row).any() for row in rows):
        raise DataError("the model returned NaN for a log-probability; check its weights")
    return rows


def decode_many(searches: Sequence[Search], ask: Ask) -> list[tuple[Node, ...]]:
    """Run searches side by side, each for the question of its number.

    >>> from jpr.decode.sequences import sequence
    >>> table = {(): [-0.1, -0.2, -9.0], (0,): [-9.0, -9.0, -0.1]}
    >>> ask = lambda pairs: [np.array(table[prefix]) for _, prefix in pairs]
    >>> [chosen_passages(one) for one in decode_many([sequence(3, Limits(2))], ask)]
    [(0, 2)]
    """
    results: dict[int, tuple[Node, ...]] = {}
    received: dict[int, list[Row]] = {number: [] for number in range(len(searches))}
    while received:
        pairs: list[tuple[int, Prefix]] = []
        for number, rows in received.items():
            try:
                needed = searches[number].send(rows) if rows else next(searches[number])
                pairs += [(number, prefix) for prefix in needed]
            except StopIteration as end:
                results[number] = end.value
        received = {number: [] for number, _ in pairs}
        for (number, _), row in zip(pairs, ask(pairs) if pairs else (), strict=True):
            received[number].append(row)
    return [results[number] for number in range(len(searches))]
