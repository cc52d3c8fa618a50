"""TreeDecode: the best expansion of any prefix so far (paper, Algorithm 1)."""

from collections.abc import Collection, Iterator, Mapping
from heapq import heappop, heappush, nsmallest
from itertools import count, islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from jpr.decode.search import Limits, Search, Selection, checked
from jpr.types import Node, Prefix


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
    selection, frontier = Selection(limits, n), _Frontier(beta, ordered)
    known: dict[Prefix, NDArray[np.floating]] = {}
    prefix: Prefix = ()
    while not selection.is_full:
        if prefix not in known:
            asked = [prefix, *islice(_likely(frontier, known, n), ahead - 1)]
            known |= zip(asked, checked((yield asked), n, len(asked)), strict=True)
        frontier.open(prefix, known[prefix], len(selection.nodes))
        node = _next(frontier, selection)
        if node is None:
            break
        selection.add(node)
        prefix = (*node.prefix, node.passage)
        frontier.grow(prefix)
    return tuple(selection.nodes)


class _Expansion(NamedTuple):
    """A passage after a prefix; smaller ones come first."""

    cost: float  # minus the score
    length: int  # of the prefix
    opened: int  # when the prefix was opened
    place: int  # rank among the expansions of its prefix


class _Opened(NamedTuple):
    """A prefix and its expansions, the best first."""

    prefix: Prefix
    order: list[int]
    costs: NDArray[np.float64]
    row: NDArray[np.floating]


class _Frontier:
    """The expansions of all opened prefixes; the heap holds the next one of each prefix."""

    def __init__(self, beta: float, ordered: bool) -> None:
        self._beta, self._ordered = beta, ordered
        self._heap: list[_Expansion] = []
        self._opened: dict[int, _Opened] = {}
        self._grown: set[Collection[int]] = set()

    def copy(self) -> "_Frontier":
        other = _Frontier(self._beta, self._ordered)
        other._heap, other._opened = self._heap.copy(), self._opened.copy()
        other._grown = self._grown.copy()
        return other

    def grow(self, prefix: Prefix) -> None:
        """Never return a prefix again, nor another order of it unless orders count."""
        self._grown.add(self._key(prefix))

    def _key(self, prefix: Prefix) -> Collection[int]:
        return prefix if self._ordered else frozenset(prefix)

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
        while self._heap:
            best = heappop(self._heap)
            self._push(best.opened, best.place + 1)
            mine = self._opened[best.opened]
            passage = mine.order[best.place]
            if self._key((*mine.prefix, passage)) not in self._grown:
                return mine.prefix, passage, float(mine.row[passage]), -best.cost
        return None

    def best(self, limit: int) -> Iterator[tuple[Prefix, int, float]]:
        """Return prefix, passage and score of the best remaining expansions.

        They belong to the prefixes at the top of the heap: no pass over the whole heap is needed.
        """
        heads = [heappop(self._heap) for _ in range(min(limit, len(self._heap)))]
        for head in heads:
            heappush(self._heap, head)
        every = (
            self._expansion(head.opened, place)
            for head in heads
            for place in range(head.place, head.place + limit)
            if place < len(self._opened[head.opened].order)
        )
        for found in nsmallest(limit, every):
            mine = self._opened[found.opened]
            yield mine.prefix, mine.order[found.place], -found.cost


def _likely(
    frontier: _Frontier, known: Mapping[Prefix, NDArray[np.floating]], n: int
) -> Iterator[Prefix]:
    """Yield the prefixes that the search will need if no new expansion is better, in order.

    It simulates the search over the known rows: a prefix whose row was fetched ahead of its turn
    is grown as well, so that its successors can be fetched too.
    """
    ahead, numbers = frontier.copy(), count(1 << 30)  # above those of opened prefixes
    while (best := ahead.pop()) is not None:
        prefix = (*best[0], best[1])
        if len(prefix) == n:
            continue
        ahead.grow(prefix)
        if prefix in known:
            ahead.open(prefix, known[prefix], next(numbers))
        else:
            yield prefix


def _next(frontier: _Frontier, selection: Selection) -> Node | None:
    """Return the best expansion that fits, with the next best ones."""
    while (best := frontier.pop()) is not None:
        prefix, passage, log_prob, score = best
        if selection.fits(passage):
            is_new = passage not in selection.passages
            return Node(prefix, passage, log_prob, score, is_new, tuple(frontier.best(3)))
    return None
