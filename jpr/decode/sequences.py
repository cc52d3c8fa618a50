"""Searches along sequences: SeqDecode, beam search, and independent scoring."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from jpr.decode.search import Limits, Search, Selection, checked
from jpr.errors import ConfigError
from jpr.types import Node, Prefix


def sequence(n: int, limits: Limits) -> Search:
    """Take the best passage of every step."""
    selection = Selection(limits, n)
    prefix: Prefix = ()
    while not selection.is_full:
        (row,) = checked((yield [prefix]), n, 1)
        fitting = [passage for passage in _best_first(row, prefix) if selection.fits(passage)]
        if not fitting:
            break
        selection.add(_node(prefix, fitting, row))
        prefix = (*prefix, fitting[0])
    return tuple(selection.nodes)


def independent(n: int, limits: Limits) -> Search:
    """Take the best passages of the first step, as IndepPR does."""
    selection = Selection(limits, n)
    if selection.is_full:
        return ()
    (row,) = checked((yield [()]), n, 1)
    order = _best_first(row, ())
    for place, passage in enumerate(order):
        if selection.fits(passage) and not selection.is_full:
            selection.add(_node((), order[place:], row))
    return tuple(selection.nodes)


def beam(n: int, limits: Limits, width: int = 4) -> Search:
    """Keep the `width` sequences with the largest sums of log-probabilities, to the end."""
    if width < 1:
        raise ConfigError(f"beam width {width}; give at least 1")
    beams: list[tuple[float, tuple[Node, ...]]] = [(0.0, ())]
    while True:
        states = [Selection(limits, n, nodes) for _, nodes in beams]
        if all(state.is_full for state in states):
            break
        prefixes = [tuple(node.passage for node in nodes) for _, nodes in beams]
        rows = checked((yield prefixes), n, len(prefixes))
        longer: list[tuple[float, tuple[Node, ...]]] = []
        for (total, nodes), state, prefix, row in zip(beams, states, prefixes, rows, strict=True):
            kept = [p for p in _best_first(row, prefix) if state.fits(p)][:width]
            longer += [(total + float(row[p]), (*nodes, _node(prefix, [p], row))) for p in kept]
        if not longer:
            break
        beams = sorted(longer, key=lambda found: -found[0])[:width]
    return beams[0][1]


def _node(prefix: Prefix, order: Sequence[int], row: NDArray[np.floating]) -> Node:
    best, *others = order
    log_prob = float(row[best])
    instead = tuple((prefix, other, float(row[other])) for other in others[:3])
    return Node(prefix, best, log_prob, log_prob, True, instead)


def _best_first(row: NDArray[np.floating], prefix: Prefix) -> list[int]:
    order: list[int] = np.argsort(-row, kind="stable").tolist()
    return [passage for passage in order if passage not in prefix]
