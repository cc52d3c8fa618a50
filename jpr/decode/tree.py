"""TreeDecode: the best expansion of any prefix so far (paper, Algorithm 1)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush, nsmallest
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from jpr.decode.search import Chosen, Limits, Node, Prefix, Search, checked

Grown = set[frozenset[int]] | None
"""The sets of passages that prefixes were grown of; None where every order counts."""
_LATER = 1 << 30
"""Greater than any number of a prefix that was opened."""


def length_penalty(length: int, beta: float) -> float:
    """Return l(y) = ((5 + y) / 6)^β, by which a log-probability at this depth is multiplied.

    >>> length_penalty(1, beta=2.0), length_penalty(7, beta=1.0)
    (1.0, 2.0)
    """
    return float(((5 + length) / 6) ** beta)


def tree(n: int, limits: Limits, beta: float = 0.0, ahead: int = 1, orders: bool = True) -> Search:
    """Grow a tree of prefixes, the best expansion first, until it holds `k` distinct passages.

    Log-probabilities are negative: with a larger β, deep expansions lose and the search grows
    wide, towards `independent`; with a negative β it grows deep, towards `sequence`.

    Whenever the model must be asked for a prefix, it is asked for up to `ahead` in all: those that
    will come next unless something better is found. Where prefixes together take little longer
    than one, as on a GPU, this saves rounds; what is chosen is the same.

    A model that is sure of several passages finds them in every order, and each order is a prefix
    of its own. Without `orders`, a prefix is passed over where another one of the same passages was
    grown: the tree is smaller by half or more, and the passages are the same where the order of a
    prefix makes no difference to the model.

    It ends: every round adds a prefix that the tree lacks, there are finitely many prefixes without
    repetition, and together they hold every candidate.
    """
    limits.check(n)
    chosen = Chosen(limits, n)
    frontier = _Frontier(beta)
    known: dict[Prefix, NDArray[np.floating]] = {}
    grown: Grown = None if orders else set()
    prefix: Prefix = ()
    while not chosen.full:
        if prefix not in known:
            asked = [prefix, *islice(_likely(frontier, known, grown, n), ahead - 1)]
            known |= zip(asked, checked((yield asked), n, len(asked)), strict=True)
        frontier.open(prefix, known[prefix], len(chosen.nodes))
        node = _next(frontier, chosen, grown)
        if node is None or node.score < limits.threshold:
            break
        chosen.add(node)
        prefix = (*node.prefix, node.passage)
        if grown is not None:
            grown.add(frozenset(prefix))
    return chosen.decoded()


class _Expansion(NamedTuple):
    """A passage after a prefix; the smaller, the sooner its turn."""

    cost: float
    """Minus the score."""
    length: int
    """Of the prefix."""
    opened: int
    """When the prefix was opened."""
    place: int
    """Among the expansions of its prefix, the best first."""


class _Frontier:
    """All expansions of the prefixes opened so far, of each prefix only the next at hand."""

    def __init__(self, beta: float) -> None:
        self._beta = beta
        self._heap: list[_Expansion] = []
        self._opened: dict[int, _Opened] = {}

    def copy(self) -> "_Frontier":
        """Return the same, to be gone through by itself."""
        other = _Frontier(self._beta)
        other._heap, other._opened = self._heap.copy(), self._opened.copy()
        return other

    def open(self, prefix: Prefix, row: NDArray[np.floating], when: int) -> None:
        """Add the expansions of a prefix."""
        costs = -length_penalty(len(prefix) + 1, self._beta) * row.astype(np.float64)
        order = [p for p in np.argsort(costs, kind="stable").tolist() if p not in prefix]
        self._opened[when] = _Opened(prefix, order, costs, row)
        self._push(when, 0)

    def _push(self, when: int, place: int) -> None:
        mine = self._opened[when]
        if place < len(mine.order):
            cost = float(mine.costs[mine.order[place]])
            heappush(self._heap, _Expansion(cost, len(mine.prefix), when, place))

    def pop(self) -> tuple[Prefix, int, float, float] | None:
        """Take the best expansion: prefix, passage, log-probability, score."""
        if not self._heap:
            return None
        best = heappop(self._heap)
        self._push(best.opened, best.place + 1)
        mine = self._opened[best.opened]
        passage = mine.order[best.place]
        return mine.prefix, passage, float(mine.row[passage]), -best.cost

    def best(self, count: int) -> Iterator[tuple[Prefix, int, float]]:
        """Return the best that are left: prefix, passage, score.

        They are expansions of the prefixes whose next ones are best.
        """
        heads = [heappop(self._heap) for _ in range(min(count, len(self._heap)))]
        for head in heads:  # a look at the whole heap would take longer the more there is
            heappush(self._heap, head)
        every = (expansion for head in heads for expansion in self._after(head, count))
        for found in nsmallest(count, every):
            mine = self._opened[found.opened]
            yield mine.prefix, mine.order[found.place], -found.cost

    def _after(self, head: _Expansion, count: int) -> Iterator[_Expansion]:
        mine = self._opened[head.opened]
        for place in range(head.place, min(head.place + count, len(mine.order))):
            cost = float(mine.costs[mine.order[place]])
            yield _Expansion(cost, head.length, head.opened, place)


@dataclass(frozen=True, slots=True, eq=False)
class _Opened:
    """A prefix and its expansions, the best first."""

    prefix: Prefix
    order: list[int]
    costs: NDArray[np.float64]
    row: NDArray[np.floating]


def _likely(
    frontier: _Frontier,
    known: Mapping[Prefix, NDArray[np.floating]],
    grown: Grown,
    n: int,
) -> Iterator[Prefix]:
    """Yield the prefixes that will be asked for if nothing new is better, those first come first.

    The search goes on by itself over what is known: a prefix that was asked for ahead of its turn
    is grown, so that what follows it can be asked for, too.
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


def _next(frontier: _Frontier, chosen: Chosen, grown: Grown) -> Node | None:
    """Take the best expansion that fits and is not grown, and note what it was preferred to."""
    while (best := frontier.pop()) is not None:
        prefix, passage, log_prob, score = best
        if chosen.fits(passage) and not _is_grown(grown, (*prefix, passage)):
            is_new = passage not in chosen.set
            return Node(prefix, passage, log_prob, score, is_new, tuple(frontier.best(3)))
    return None
