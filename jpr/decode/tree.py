"""TreeDecode: the best expansion of any prefix so far (paper, Algorithm 1)."""

from collections.abc import Container, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush, nsmallest
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from jpr.decode.search import Chosen, Limits, Node, Prefix, Search, checked


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
    grown: set[frozenset[int]] = set()
    prefix: Prefix = ()
    while not chosen.full:
        if prefix not in known:
            asked = [prefix, *_likely(frontier, known, ahead - 1, n)]
            known |= zip(asked, checked((yield asked), n, len(asked)), strict=True)
        frontier.open(prefix, known[prefix], len(chosen.nodes))
        node = _next(frontier, chosen, grown)
        if node is None or node.score < limits.threshold:
            break
        chosen.add(node)
        prefix = (*node.prefix, node.passage)
        if not orders:
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
        heads = nsmallest(count, self._heap)
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


def _likely(frontier: _Frontier, known: Container[Prefix], count: int, n: int) -> list[Prefix]:
    """Return the prefixes that come next if nothing new is better, as far as they are not known."""
    opened = ((*prefix, passage) for prefix, passage, _ in frontier.best(2 * count))
    return list(islice((p for p in opened if p not in known and len(p) < n), count))


def _next(frontier: _Frontier, chosen: Chosen, grown: Container[frozenset[int]]) -> Node | None:
    """Take the best expansion that fits and is not grown, and note what it was preferred to."""
    while (best := frontier.pop()) is not None:
        prefix, passage, log_prob, score = best
        if chosen.fits(passage) and frozenset((*prefix, passage)) not in grown:
            is_new = passage not in chosen.set
            return Node(prefix, passage, log_prob, score, is_new, tuple(frontier.best(3)))
    return None
