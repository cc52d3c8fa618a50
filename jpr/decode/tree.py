"""TreeDecode: the best expansion of any prefix so far (paper, Algorithm 1)."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush, nsmallest
from itertools import chain, islice
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
            known |= zip(asked, checked((yield asked), n), strict=True)
        frontier.open(prefix, known[prefix])
        best = next((one for one in frontier if selection.fits(one.passage)), None)
        if best is None:
            break
        log_prob, score = float(known[best.prefix][best.passage]), -best.cost
        others = tuple((one.prefix, one.passage, -one.cost) for one in frontier.best(3))
        is_new = best.passage not in selection.passages
        selection.add(Node(best.prefix, best.passage, log_prob, score, is_new, others, score))
        prefix = (*best.prefix, best.passage)
    return tuple(selection.nodes)


class _Expansion(NamedTuple):
    """A passage after a prefix; smaller ones come first."""

    cost: float  # minus the score
    length: int  # of the prefix
    opened: int  # when the prefix was opened
    place: int  # rank among the expansions of its prefix
    prefix: Prefix
    passage: int


class _Opened(NamedTuple):
    """A prefix, its expansions, the best first, and their costs by passage."""

    prefix: Prefix
    order: list[int]
    costs: NDArray[np.float64]


@dataclass(frozen=True)
class _Frontier:
    """Yields the best expansion of all opened prefixes; the heap holds the next one of each."""

    beta: float
    ordered: bool
    heap: list[_Expansion] = field(default_factory=list)
    opened: list[_Opened] = field(default_factory=list)
    grown: set[Collection[int]] = field(default_factory=set)

    def open(self, prefix: Prefix, row: NDArray[np.floating]) -> None:
        """Add the expansions of a prefix."""
        costs = -length_penalty(len(prefix) + 1, self.beta) * row.astype(np.float64)
        order = [p for p in np.argsort(costs, kind="stable").tolist() if p not in prefix]
        self.opened.append(_Opened(prefix, order, costs))
        self._push(self._expansions(len(self.opened) - 1, 0, 1))

    def _expansions(self, opened: int, first: int, count: int) -> list[_Expansion]:
        """Return some expansions of one prefix, from the `first` on, the best first."""
        prefix, order, costs = self.opened[opened]
        return [
            _Expansion(float(costs[passage]), len(prefix), opened, place, prefix, passage)
            for place, passage in enumerate(order[first : first + count], start=first)
        ]

    def _push(self, expansions: Iterable[_Expansion]) -> None:
        for one in expansions:
            heappush(self.heap, one)

    def __iter__(self) -> Iterator[_Expansion]:
        """Remove the best expansions; skip a grown prefix, or set of passages if not ordered."""
        while self.heap:
            best = heappop(self.heap)
            self._push(self._expansions(best.opened, best.place + 1, 1))
            prefix = (*best.prefix, best.passage)
            key = prefix if self.ordered else frozenset(prefix)
            if key not in self.grown:
                self.grown.add(key)
                yield best

    def best(self, limit: int) -> list[_Expansion]:
        """Return the best remaining expansions.

        They belong to the prefixes at the top of the heap: no pass over the whole heap is needed.
        """
        heads = [heappop(self.heap) for _ in range(min(limit, len(self.heap)))]
        self._push(heads)
        every = (self._expansions(head.opened, head.place, limit) for head in heads)
        return nsmallest(limit, chain.from_iterable(every))


def _likely(
    frontier: _Frontier, known: Mapping[Prefix, NDArray[np.floating]], n: int
) -> Iterator[Prefix]:
    """Yield the prefixes that the search will need if no new expansion is better, in order.

    It simulates the search over the known rows: a prefix whose row was fetched ahead of its turn
    is grown as well, so that its successors can be fetched too.
    """
    heap, opened, grown = frontier.heap.copy(), frontier.opened.copy(), frontier.grown.copy()
    ahead = replace(frontier, heap=heap, opened=opened, grown=grown)
    for best in ahead:
        prefix = (*best.prefix, best.passage)
        if prefix in known:
            ahead.open(prefix, known[prefix])
        elif len(prefix) < n:
            yield prefix
