"""What is asked for ahead of its turn."""

from collections.abc import Sequence

import numpy as np

from jpr.decode.search import Limits, Rows, chosen_passages
from jpr.decode.tree import tree
from jpr.types import Prefix
from tests.decode.alone import decode

FIRST = np.log([0.24, 0.23, 0.22, 0.21, 0.02, 0.02, 0.02, 0.02])


def chains(prefixes: Sequence[Prefix]) -> Rows:
    """After each of four passages comes one that is all but sure, and then nothing is likely."""
    rows = []
    for prefix in prefixes:
        row = np.log(np.full(8, 0.01)) if prefix else FIRST.copy()
        if len(prefix) == 1:
            row[4 + prefix[0]] = np.log(0.9)
        rows.append(row)
    return rows


def rounds(ahead: int) -> list[Sequence[Prefix]]:
    asked: list[Sequence[Prefix]] = []

    def listening(prefixes: Sequence[Prefix]) -> Rows:
        asked.append(prefixes)
        return chains(prefixes)

    found = decode(tree(8, Limits(8), 0.0, ahead), listening)
    assert chosen_passages(found) == (0, 4, 1, 5, 2, 6, 3, 7)
    return asked


def test_what_follows_a_prefix_that_was_asked_for_ahead_is_asked_for_too() -> None:
    """After (0,) is known so are (1,), (2,), (3,): then the ends of all four chains are."""
    first, second, third = rounds(ahead=4)
    assert first == [()]
    assert second == [(0,), (1,), (2,), (3,)]
    assert third == [(0, 4), (1, 5), (2, 6), (3, 7)]
    assert len(rounds(ahead=1)) == 8


def test_of_the_orders_of_a_set_one_is_asked_for() -> None:
    def flat(prefixes: Sequence[Prefix]) -> Rows:
        asked.extend(prefixes)
        return [np.log(np.full(4, 1 / 4)) for _ in prefixes]

    asked: list[Prefix] = []
    decode(tree(4, Limits(4), -6.0, 16, ordered=False), flat)
    assert len({frozenset(prefix) for prefix in asked}) == len(asked)
