"""Searches that choose along sequences: SeqDecode, beam, and the best of the first step."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from jpr.decode.search import Chosen, Decoded, Limits, Node, Prefix, Search, checked
from jpr.errors import ConfigError


def sequence(n: int, limits: Limits) -> Search:
    """Take the best passage of every step."""
    limits.check(n)
    chosen = Chosen(limits, n)
    prefix: Prefix = ()
    while not chosen.full:
        (row,) = checked((yield [prefix]), n, 1)
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
    chosen = Chosen(limits, n)
    if chosen.full:
        return chosen.decoded()
    (row,) = checked((yield [()]), n, 1)
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
        states = [Chosen(limits, n, nodes) for _, nodes in beams]
        if all(state.full for state in states):
            break
        prefixes = [tuple(node.passage for node in nodes) for _, nodes in beams]
        rows = checked((yield prefixes), n, len(prefixes))
        longer: list[tuple[float, tuple[Node, ...]]] = []
        for (total, nodes), state, prefix, row in zip(beams, states, prefixes, rows, strict=True):
            order = [p for p in _best_first(row, prefix) if state.fits(p)]
            kept = [p for p in order if row[p] >= limits.threshold][:width]
            longer += [(total + float(row[p]), (*nodes, _node(prefix, [p], row))) for p in kept]
        if not longer:
            break
        beams = sorted(longer, key=lambda found: -found[0])[:width]
    return Decoded(beams[0][1])


def _node(prefix: Prefix, order: Sequence[int], row: NDArray[np.floating]) -> Node:
    best, *others = order
    log_prob = float(row[best])
    instead = tuple((prefix, other, float(row[other])) for other in others[:3])
    return Node(prefix, best, log_prob, log_prob, True, instead)


def _best_first(row: NDArray[np.floating], prefix: Prefix) -> list[int]:
    order: list[int] = np.argsort(-row, kind="stable").tolist()
    return [passage for passage in order if passage not in prefix]
