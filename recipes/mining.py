"""Choose the passages that a dual encoder learns from, given the answers in them (appendix A).

A *positive* passage contains an answer. A *hard negative* is ranked high by the untrained encoder
and contains none.
"""

from collections.abc import Sequence
from dataclasses import dataclass

_PER_ANSWER = 4
_HARD = 20
_COMMON = 0.4


@dataclass(frozen=True, slots=True)
class Example:
    """Positives and negatives of one question; passages are row numbers."""

    positives: tuple[tuple[int, ...], ...]
    """For each answer that was found, the best passages that contain it."""
    hard: tuple[int, ...]
    """The best passages that contain no answer."""
    holding: frozenset[int]
    """All candidates that contain an answer: never negatives."""


def mine(candidates: Sequence[int], found: Sequence[Sequence[int]]) -> Example | None:
    """Choose from candidates, best first, with the answers `found` in each.

    An answer in more than 40 % of the candidates says little, and is left out of the positives.
    Return None if there is no positive or no negative.

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
