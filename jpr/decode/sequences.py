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
        (row,) = checked((yield [prefix]), n)
        fitting = [passage for passage in _best_first(row, prefix) if selection.fits(passage)]
        if not fitting:
            break
        selection.add(_node(prefix, fitting, row))
        prefix = (*prefix, fitting[0])
    return tuple(selection.nodes)


def independent(n: int, limits: Limits) -> Search:
    """Take the best passages of the first step, as IndepPR does."""
    selection = Selection(limits, n)
    if not selection.is_full:
        (row,) = checked((yield [()]), n)
        order = _best_first(row, ())
        for place, passage in enumerate(order):
            if selection.fits(passage) and not selection.is_full:
                selection.add(_node((), order[place:], row))
    return tuple(selection.nodes)


def beam(n: int, limits: Limits, width: int = 4) -> Search:
    """Keep the `width` sequences with the largest sums of log-probabilities, to the end."""
    if width < 1:
        raise ConfigError(f"beam width {width}; give at least 1")
    beams = [(0.0, Selection(limits, n))]
    while not all(one.is_full for _, one in beams):
        prefixes = [tuple(node.passage for node in one.nodes) for _, one in beams]
        rows = checked((yield prefixes), n)
        longer = [
            (total + float(row[passage]), [*one.nodes, _node(prefix, [passage], row)])
            for (total, one), prefix, row in zip(beams, prefixes, rows, strict=True)
            for passage in [p for p in _best_first(row, prefix) if one.fits(p)][:width]
        ]
        if not longer:
            break
        longer.sort(key=lambda found: -found[0])
        beams = [(total, Selection(limits, n, nodes)) for total, nodes in longer[:width]]
    return tuple(beams[0][1].nodes)


def _node(prefix: Prefix, order: Sequence[int], row: NDArray[np.floating]) -> Node:
    best, *others = order
    log_prob = float(row[best])
    instead = tuple((prefix, other, float(row[other])) for other in others[:3])
    return Node(prefix, best, log_prob, log_prob, True, instead, worth=log_prob)


def _best_first(row: NDArray[np.floating], prefix: Prefix) -> list[int]:
    order: list[int] = np.argsort(-row, kind="stable").tolist()
    return [passage for passage in order if passage not in prefix]
