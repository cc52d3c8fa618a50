"""The oracle ordering of passages: greedy, and exact within a limit of work."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

import numpy as np
from numpy.typing import NDArray

from jpr.coverage import Coverage, Ints, starts

Floats = NDArray[np.float64]


def found(coverage: Coverage, k: int | None = None) -> Ints:
    """Return the number of distinct answers in the first k passages (or all) of each question."""
    top = coverage.rank < (coverage.n_passages.max(initial=0) if k is None else k)
    offsets = starts(coverage.n_answers)
    seen = np.unique(offsets[coverage.question[top]] + coverage.answer[top])
    question = np.searchsorted(offsets, seen, side="right") - 1
    return np.bincount(question, minlength=len(coverage))


def sums_of(group: Ints, values: Floats, size: int) -> Floats:
    """Return the sum of the values of each group."""
    return np.bincount(group, weights=values, minlength=size).astype(np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Greedy:
    """The greedy ordering of each question's passages, cut after k."""

    gains: Floats
    """(questions × k or the longest ranking) the gain at each rank, 0 if nothing is left."""
    passages: Ints
    """(questions × k) the passage chosen at each rank, -1 if no passage adds anything."""

    def positions(self) -> list[list[int]]:
        """Return the passages chosen for each question, best first."""
        return [[p for p in row if p >= 0] for row in self.passages.tolist()]


def greedy(pool: Coverage, k: int, alpha: float) -> Greedy:
    """At each rank take the passage that adds most; ties go to the first.

    With α = 1 an answer counts once: the greedy maximum coverage. The exact ideal of α-nDCG is
    NP-hard; the field, and `ndeval`, use this one.
    """
    k = min(k, int(pool.n_passages.max(initial=1)))
    gains = np.zeros((len(pool), k))
    passages = np.full((len(pool), k), -1, dtype=np.int64)
    if not len(pool.question):
        return Greedy(gains, passages)
    offsets = starts(pool.n_answers)
    answer = offsets[pool.question] + pool.answer
    start = starts(pool.n_passages)
    ids: Ints
    ids, passage = np.unique(start[pool.question] + pool.rank, return_inverse=True)
    owner: Ints = np.searchsorted(start, ids, side="right") - 1  # each useful passage's question
    first = np.flatnonzero(np.r_[True, owner[1:] != owner[:-1]])
    segment = np.cumsum(np.r_[False, owner[1:] != owner[:-1]])
    worth = np.ones(int(pool.n_answers.sum()))
    free = np.ones(len(ids), dtype=bool)
    for rank in range(k):
        value = sums_of(passage, worth[answer], len(ids)) * free
        best = np.maximum.reduceat(value, first)
        # Values are summed in the order of the answers and compared exactly, like ndeval's: a
        # tolerance would break some ties differently.
        tied = np.flatnonzero((value == best[segment]) & (value > 0))
        chosen = tied[np.r_[True, owner[tied][1:] != owner[tied][:-1]]] if len(tied) else tied
        gains[owner[chosen], rank] = value[chosen]
        passages[owner[chosen], rank] = ids[chosen] - start[owner[chosen]]
        free[chosen] = False
        taken = np.zeros(len(ids), dtype=bool)
        taken[chosen] = True
        worth[answer[taken[passage]]] *= 1 - alpha
    return Greedy(gains, passages)


@dataclass(frozen=True, slots=True, eq=False)
class Order:
    """For each question, k passages that together contain the most answers."""

    positions: list[list[int]]
    bounds: Ints  # no k passages of the question contain more answers than this


def best_cover(coverage: Coverage, k: int) -> Order:
    """Return the best k passages of every question, with a search where greedy may not be best."""
    choice = greedy(coverage, k, alpha=1.0)
    positions = choice.positions()
    bounds = choice.gains.sum(axis=1).astype(np.int64)
    for question in np.flatnonzero(bounds < found(coverage)).tolist():
        positions[question], bounds[question] = max_cover(coverage.covers(question), k)
    return Order(positions, bounds)


def max_cover(
    covers: Sequence[frozenset[int]], k: int, work: int = 20_000
) -> tuple[list[int], int]:
    """Choose k passages that together contain the most answers, by branch and bound.

    Maximum coverage is NP-hard: after `work` steps it returns the best choice so far. The second
    result is a number of answers that no choice exceeds; a choice that has as many is proven best.
    A passage without an answer that those before it lack is not chosen.

    >>> max_cover([frozenset({0, 1, 2}), frozenset({0, 1, 3}), frozenset({2, 4})], k=2)
    ([1, 2], 5)
    """
    sets = _undominated(covers)
    best = _greedy_choice(sets, k)
    limit = min(reduce(or_, sets.values(), 0).bit_count(), _reach(0, list(sets.values()), k))

    def explore(done: int, chosen: tuple[int, ...], sets: list[tuple[int, int]]) -> None:
        """Search depth first; `best` improves, `work` decreases."""
        nonlocal best, work
        work -= 1
        if done.bit_count() > best[0]:
            best = (done.bit_count(), chosen)
        left = k - len(chosen)
        sets = sorted(sets, key=lambda item: -(item[1] & ~done).bit_count())
        for at, (i, bits) in enumerate(sets):
            rest = sets[at:]
            if not left or work <= 0:
                return
            if _reach(done, [more for _, more in rest], left) <= best[0]:
                return  # the sets are sorted by gain, so later starts reach no further
            explore(done | bits, (*chosen, i), rest[1:])

    if best[0] < limit:
        explore(0, (), list(sets.items()))
    covered, passages = best
    return list(passages), limit if work <= 0 else covered


def _undominated(covers: Sequence[frozenset[int]]) -> dict[int, int]:
    """Return passage -> answers as bits, without passages dominated by another."""
    bits = {i: sum(1 << answer for answer in answers) for i, answers in enumerate(covers)}
    kept: dict[int, int] = {}
    for i in sorted(bits, key=lambda i: (-bits[i].bit_count(), i)):
        if bits[i] and all(bits[i] & ~other for other in kept.values()):
            kept[i] = bits[i]
    return kept


def _greedy_choice(sets: dict[int, int], k: int) -> tuple[int, tuple[int, ...]]:
    done, chosen = 0, []
    for _ in range(min(k, len(sets))):
        i = max(sets, key=lambda i: (sets[i] & ~done).bit_count())
        if not sets[i] & ~done:
            break
        done |= sets[i]
        chosen.append(i)
    return done.bit_count(), tuple(chosen)


def _reach(done: int, sets: Sequence[int], k: int) -> int:
    """Return a bound on what k of the sets can cover together with `done`."""
    gains = sorted(((bits & ~done).bit_count() for bits in sets), reverse=True)
    return done.bit_count() + sum(gains[:k])
