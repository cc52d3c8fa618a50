"""Which passages, given P(next passage | passages already chosen): search alone, no model.

A *search* is a generator: it yields the prefixes whose log-probabilities it needs next, is sent one
row per prefix (a number per candidate), and returns what it chose. So searches for many questions
advance together, and each round is one call of the model (`decode_many`).

    SeqDecode      `sequence`: the best passage of every step (paper, Algorithm 1)
    TreeDecode     `tree`: the best expansion of any prefix so far (paper, Algorithm 1)
    over sets      `tree` without orders: prefixes of the same passages are one
    beam           `beam`: the sequence whose steps have the largest sum
    independent    `independent`: the best passages of the first step

A passage never follows itself. Equal scores go to the shorter prefix, then to the prefix that was
opened first, then to the candidate that stands first.
"""

from collections.abc import Callable, Container, Generator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, nsmallest
from math import inf, isnan

import numpy as np
from numpy.typing import NDArray

from jpr.errors import ConfigError, DataError

Prefix = tuple[int, ...]
Rows = Sequence[NDArray[np.floating]]
NextLogProbs = Callable[[Sequence[Prefix]], Rows]
"""log P(next passage | prefix) of each candidate, one row per prefix."""


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
    chosen = _Chosen(limits, n)
    heap: list[_Expansion] = []
    known: dict[Prefix, NDArray[np.floating]] = {}
    grown: set[frozenset[int]] = set()
    prefix: Prefix = ()
    while not chosen.full:
        if prefix not in known:
            asked = [prefix, *_likely(heap, known, ahead - 1, n)]
            known |= zip(asked, _checked((yield asked), n, len(asked)), strict=True)
        row = known[prefix]
        penalty = length_penalty(len(prefix) + 1, beta)
        scores, opened = (-penalty * row.astype(np.float64)).tolist(), len(chosen.nodes)
        heap += [
            (cost, len(prefix), opened, passage, prefix, log_prob)
            for passage, (cost, log_prob) in enumerate(zip(scores, row.tolist(), strict=True))
            if passage not in prefix
        ]
        heapify(heap)  # faster than one push after the other
        node = _pop(heap, chosen, grown)
        if node is None or node.score < limits.threshold:
            break
        chosen.add(node)
        prefix = (*node.prefix, node.passage)
        if not orders:
            grown.add(frozenset(prefix))
    return chosen.decoded()


_Expansion = tuple[float, int, int, int, Prefix, float]
"""Minus the score, length of the prefix, when it was opened, passage; prefix, log-probability."""


def _likely(heap: list[_Expansion], known: Container[Prefix], count: int, n: int) -> list[Prefix]:
    """Return the prefixes that come next if nothing new is better, as far as they are not known."""
    best = nsmallest(2 * count, heap) if count > 0 else []
    opened = [(*entry[4], entry[3]) for entry in best]
    return [prefix for prefix in opened if prefix not in known and len(prefix) < n][:count]


def _pop(
    heap: list[_Expansion], chosen: "_Chosen", grown: Container[frozenset[int]]
) -> Node | None:
    """Take the best expansion that fits and is not grown, and note what it was preferred to."""
    while heap:
        cost, _, _, passage, prefix, log_prob = heappop(heap)
        if chosen.fits(passage) and frozenset((*prefix, passage)) not in grown:
            best = sorted(heap[:7])[:3]  # a heap's three smallest are on its first three levels
            others = tuple((entry[4], entry[3], -entry[0]) for entry in best)
            return Node(prefix, passage, log_prob, -cost, passage not in chosen.set, others)
    return None


def sequence(n: int, limits: Limits) -> Search:
    """Take the best passage of every step."""
    limits.check(n)
    chosen = _Chosen(limits, n)
    prefix: Prefix = ()
    while not chosen.full:
        (row,) = _checked((yield [prefix]), n, 1)
        order = _best_first(row, prefix)
        fitting = [passage for passage in order if chosen.fits(passage)]
        if not fitting or row[fitting[0]] < limits.threshold:
            break
        chosen.add(_node(prefix, fitting, row))
        prefix = (*prefix, fitting[0])
    return chosen.decoded()


def independent(n: int, limits: Limits) -> Search:
    """Take the best passages of the first step, as IndepPR does."""
    limits.check(n)
    chosen = _Chosen(limits, n)
    if chosen.full:
        return chosen.decoded()
    (row,) = _checked((yield [()]), n, 1)
    order = _best_first(row, ())
    for place, passage in enumerate(order):
        if chosen.full or row[passage] < limits.threshold:
            break
        if chosen.fits(passage):
            chosen.add(_node((), order[place:], row))
    return chosen.decoded()


def beam(n: int, limits: Limits, width: int = 4) -> Search:
    """Keep the `width` sequences with the largest sums of log-probabilities, to the end."""
    limits.check(n)
    if width < 1:
        raise ConfigError(f"a beam of {width}; keep at least one sequence")
    beams: list[tuple[float, tuple[Node, ...]]] = [(0.0, ())]
    while True:
        states = [_Chosen(limits, n, nodes) for _, nodes in beams]
        if all(state.full for state in states):
            break
        prefixes = [tuple(node.passage for node in nodes) for _, nodes in beams]
        rows = _checked((yield prefixes), n, len(prefixes))
        longer: list[tuple[float, tuple[Node, ...]]] = []
        for (total, nodes), state, prefix, row in zip(beams, states, prefixes, rows, strict=True):
            order = [p for p in _best_first(row, prefix) if state.fits(p)]
            kept = [p for p in order if row[p] >= limits.threshold][:width]
            longer += [(total + float(row[p]), (*nodes, _node(prefix, [p], row))) for p in kept]
        if not longer:
            break
        beams = sorted(longer, key=lambda found: -found[0])[:width]
    return Decoded(beams[0][1])


class _Chosen:
    """The passages chosen so far, against the limits."""

    def __init__(self, limits: Limits, n: int, nodes: Sequence[Node] = ()) -> None:
        self._limits, self._k = limits, min(limits.k, n)
        self.nodes: list[Node] = []
        self.set: set[int] = set()
        self.spent = 0
        for node in nodes:
            self.add(node)

    @property
    def left(self) -> int:
        return max(0, self._k - len(self.set))

    @property
    def full(self) -> bool:
        return not self.left

    def fits(self, passage: int) -> bool:
        if self._limits.budget is None or passage in self.set:
            return True
        return self.spent + self._limits.costs[passage] <= self._limits.budget

    def add(self, node: Node) -> None:
        self.nodes.append(node)
        if node.is_new and self._limits.budget is not None:
            self.spent += self._limits.costs[node.passage]
        self.set.add(node.passage)

    def decoded(self) -> Decoded:
        return Decoded(tuple(self.nodes))


def _node(prefix: Prefix, order: Sequence[int], row: NDArray[np.floating]) -> Node:
    best, *others = order
    log_prob = float(row[best])
    instead = tuple((prefix, other, float(row[other])) for other in others[:3])
    return Node(prefix, best, log_prob, log_prob, True, instead)


def _best_first(row: NDArray[np.floating], prefix: Prefix) -> list[int]:
    order: list[int] = np.argsort(-row, kind="stable").tolist()
    return [passage for passage in order if passage not in prefix]


def _checked(rows: Rows, n: int, count: int) -> Rows:
    """Refuse what is no distribution over the candidates."""
    if len(rows) != count or any(len(row) != n for row in rows):
        raise DataError(f"the model gave other than {count} rows of {n} log-probabilities")
    if any(np.isnan(row).any() for row in rows):
        raise DataError("the model gave a log-probability that is not a number; are its weights?")
    return rows


def decode(search: Search, next_log_probs: NextLogProbs) -> Decoded:
    """Run one search.

    >>> table = {(): [-0.1, -0.2, -9.0], (0,): [-9.0, -9.0, -0.1]}
    >>> scores = lambda prefixes: [np.array(table[prefix]) for prefix in prefixes]
    >>> decode(sequence(3, Limits(2)), scores).passages  # after passage 0, 2 adds more than 1
    (0, 2)
    """
    return decode_many([search], lambda wanted: next_log_probs([prefix for _, prefix in wanted]))[0]


def decode_many(
    searches: Sequence[Search],
    next_log_probs: Callable[[Sequence[tuple[int, Prefix]]], Rows],
) -> list[Decoded]:
    """Run searches side by side; the model is asked for (number of the search, prefix) pairs."""
    results: dict[int, Decoded] = {}
    wanted: dict[int, Sequence[Prefix]] = {}
    for number, search in enumerate(searches):
        _advance(number, search, None, wanted, results)
    while wanted:
        pairs = [(number, prefix) for number, prefixes in wanted.items() for prefix in prefixes]
        rows = iter(next_log_probs(pairs))
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
