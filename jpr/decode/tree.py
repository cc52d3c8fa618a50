"""TreeDecode: the best expansion of any prefix so far (paper, Algorithm 1)."""

from collections.abc import Iterator, Mapping
from heapq import heappop, heappush, nsmallest
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from jpr.decode.search import Limits, Search, Selection, checked
from jpr.types import Node, Prefix

Grown = set[frozenset[int]] | None
"""The sets of passages that prefixes were grown of; None if every order counts."""
_LATER = 1 << 30
"""Greater than the number of any opened prefix."""


def length_penalty(length: int, beta: float) -> float:
    """Return l(y) = ((5 + y) / 6)^β, by which a log-probability at this depth is multiplied.

    >>> length_penalty(1, beta=2.0), length_penalty(7, beta=1.0)
    (1.0, 2.0)
    """
    return float(((5 + length) / 6) ** beta)


def tree(n: int, limits: Limits, beta: float = 0.0, ahead: int = 1, ordered: bool = True) -> Search:
    """Grow a tree of prefixes, the best expansion first, until it holds `k` distinct passages.

    Log-probabilities are negative: with a larger β, deep expansions lose and the search grows
    wide, towards `independent`; with a negative β it grows deep, towards `sequence`.

    Whenever the model is asked for a prefix, it is asked for up to `ahead` prefixes in total: the
    others are the next to be grown if nothing better is found. Where a batch of prefixes takes
    little longer than one, as on a GPU, this saves rounds; the result is the same.

    A model that is sure of several passages finds them in every order, and each order is a prefix
    of its own. With `ordered=False`, a prefix is skipped if another one of the same passages was
    grown: the tree is smaller by half or more, and the passages are the same if the order of a
    prefix makes no difference to the model.

    The search ends: every round adds a prefix that the tree lacks, there are finitely many prefixes
    without repetition, and together they hold every candidate.
    """
    limits.check(n)
    selection = Selection(limits, n)
    frontier = _Frontier(beta)
    known: dict[Prefix, NDArray[np.floating]] = {}
    grown: Grown = None if ordered else set()
    prefix: Prefix = ()
    while not selection.is_full:
        if prefix not in known:
            asked = [prefix, *islice(_likely(frontier, known, grown, n), ahead - 1)]
            known |= zip(asked, checked((yield asked), n, len(asked)), strict=True)
        frontier.open(prefix, known[prefix], len(selection))
        node = _next(frontier, selection, grown)
        if node is None or node.score < limits.threshold:
            break
        selection.add(node)
        prefix = (*node.prefix, node.passage)
        if grown is not None:
            grown.add(frozenset(prefix))
    return selection.nodes()


class _Expansion(NamedTuple):
    """A passage after a prefix; smaller ones come first."""

    cost: float
    """Minus the score."""
    length: int
    """Of the prefix."""
    opened: int
    """When the prefix was opened."""
    place: int
    """Rank among the expansions of its prefix."""


class _Opened(NamedTuple):
    """A prefix and its expansions, the best first."""

    prefix: Prefix
    order: list[int]
    costs: NDArray[np.float64]
    row: NDArray[np.floating]


class _Frontier:
    """The expansions of all opened prefixes; the heap holds the next one of each prefix."""

    def __init__(self, beta: float) -> None:
        self._beta = beta
        self._heap: list[_Expansion] = []
        self._opened: dict[int, _Opened] = {}

    def copy(self) -> "_Frontier":
        other = _Frontier(self._beta)
        other._heap, other._opened = self._heap.copy(), self._opened.copy()
        return other

    def open(self, prefix: Prefix, row: NDArray[np.floating], when: int) -> None:
        """Add the expansions of a prefix."""
        costs = -length_penalty(len(prefix) + 1, self._beta) * row.astype(np.float64)
        order = [p for p in np.argsort(costs, kind="stable").tolist() if p not in prefix]
        self._opened[when] = _Opened(prefix, order, costs, row)
        self._push(when, 0)

    def _expansion(self, when: int, place: int) -> _Expansion:
        mine = self._opened[when]
        return _Expansion(float(mine.costs[mine.order[place]]), len(mine.prefix), when, place)

    def _push(self, when: int, place: int) -> None:
        if place < len(self._opened[when].order):
            heappush(self._heap, self._expansion(when, place))

    def pop(self) -> tuple[Prefix, int, float, float] | None:
        """Remove the best expansion and return its prefix, passage, log-probability and score."""
        if not self._heap:
            return None
        best = heappop(self._heap)
        self._push(best.opened, best.place + 1)
        mine = self._opened[best.opened]
        passage = mine.order[best.place]
        return mine.prefix, passage, float(mine.row[passage]), -best.cost

    def best(self, count: int) -> Iterator[tuple[Prefix, int, float]]:
        """Return prefix, passage and score of the best remaining expansions.

        They belong to the prefixes at the top of the heap: no pass over the whole heap is needed.
        """
        heads = [heappop(self._heap) for _ in range(min(count, len(self._heap)))]
        for head in heads:
            heappush(self._heap, head)
        every = (
            self._expansion(head.opened, place)
            for head in heads
            for place in range(head.place, head.place + count)
            if place < len(self._opened[head.opened].order)
        )
        for found in nsmallest(count, every):
            mine = self._opened[found.opened]
            yield mine.prefix, mine.order[found.place], -found.cost


def _likely(
    frontier: _Frontier,
    known: Mapping[Prefix, NDArray[np.floating]],
    grown: Grown,
    n: int,
) -> Iterator[Prefix]:
    """Yield the prefixes that the search will need if no new expansion is better, in order.

    It simulates the search over the known rows: a prefix whose row was fetched ahead of its turn
    is grown as well, so that its successors can be fetched too.
    """
    ahead, when, later = frontier.copy(), _LATER, None if grown is None else set(grown)
    while (best := ahead.pop()) is not None:
        prefix = (*best[0], best[1])
        if len(prefix) == n or _is_grown(later, prefix):
            continue
        if later is not None:
            later.add(frozenset(prefix))
        if prefix in known:
            ahead.open(prefix, known[prefix], when)
            when += 1
        else:
            yield prefix


def _is_grown(grown: Grown, prefix: Prefix) -> bool:
    return grown is not None and frozenset(prefix) in grown


def _next(frontier: _Frontier, selection: Selection, grown: Grown) -> Node | None:
    """Return the best expansion that fits and is not grown, with the next best ones."""
    while (best := frontier.pop()) is not None:
        prefix, passage, log_prob, score = best
        if selection.fits(passage) and not _is_grown(grown, (*prefix, passage)):
            is_new = passage not in selection.passages
            return Node(prefix, passage, log_prob, score, is_new, tuple(frontier.best(3)))
    return None
