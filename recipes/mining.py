"""Which passages a dual encoder learns from, given which answers its candidates hold (appendix A).

A *positive* passage holds an answer. A *hard negative* is ranked high by the untrained encoder and
holds none.
"""

from collections.abc import Sequence
from dataclasses import dataclass

_PER_ANSWER = 4
_HARD = 20
_COMMON = 0.4


@dataclass(frozen=True, slots=True)
class Example:
    """What is known of the passages for one question; passages are row numbers."""

    positives: tuple[tuple[int, ...], ...]
    """For each answer that was found, the best passages that hold it."""
    hard: tuple[int, ...]
    """The best passages that hold no answer."""
    holding: frozenset[int]
    """All candidates that hold an answer: never negatives."""


def mine(candidates: Sequence[int], found: Sequence[Sequence[int]]) -> Example | None:
    """Choose from candidates, best first, of which each holds the answers in `found`.

    An answer that stands in more than 40 % of the candidates says little, and is left out of the
    positives. None where nothing is left to learn from.

    >>> mine([7, 3, 9], [(), (0,), ()])
    Example(positives=((3,),), hard=(7, 9), holding=frozenset({3}))
    """
    holding = frozenset(row for row, held in zip(candidates, found, strict=True) if held)
    by_answer: dict[int, list[int]] = {}
    for row, held in zip(candidates, found, strict=True):
        for answer in held:
            by_answer.setdefault(answer, []).append(row)
    limit = max(1, int(_COMMON * len(candidates)))
    positives = [rows[:_PER_ANSWER] for rows in by_answer.values() if len(rows) <= limit]
    hard = [row for row in candidates if row not in holding][:_HARD]
    if not positives or not hard:
        return None
    return Example(tuple(map(tuple, positives)), tuple(hard), holding)
