"""Several rankings into one: by the ranks alone, or by scores brought to one scale.

A ranking is (key, score) pairs, best first, its keys distinct. Contributions to a key are added
exactly (`math.fsum`), so that the order of the rankings cannot change the result; of equal sums the
smaller key comes first.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import fsum, isfinite
from typing import Protocol

from jpr.errors import ConfigError

Scored = list[tuple[int, float]]
"""Rows with their scores, best first."""


class Fusion(Protocol):
    """A way to make one ranking of several; its `repr` says all that changes the result."""

    @property
    def weights(self) -> tuple[float, ...]:
        """How much each ranking counts."""

    def __call__(self, rankings: Sequence[Scored]) -> Scored:
        """Return every key of any ranking with its new score, best first."""


@dataclass(frozen=True, slots=True)
class ReciprocalRanks:
    """Reciprocal rank fusion (Cormack et al., 2009): the sum of weight / (constant + rank).

    >>> fused = ReciprocalRanks((1.0, 1.0))([[(7, 9.1), (8, 2.0)], [(8, 0.5)]])
    >>> [(key, round(score, 4)) for key, score in fused]  # 8: 1/62 + 1/61
    [(8, 0.0325), (7, 0.0164)]
    """

    weights: tuple[float, ...]
    constant: float = 60.0
    """The larger, the less the first ranks stand out."""

    def __post_init__(self) -> None:
        _check(self.weights)
        if not (isfinite(self.constant) and self.constant >= 0):
            raise ConfigError(f"constant of reciprocal ranks: {self.constant} is not 0 or more")

    def __call__(self, rankings: Sequence[Scored]) -> Scored:
        """Return every key of any ranking with its new score, best first."""
        return _sums(
            (key, weight / (self.constant + rank))
            for ranking, weight in _weighted(rankings, self.weights)
            for rank, (key, _) in enumerate(ranking, start=1)
        )


@dataclass(frozen=True, slots=True)
class ScoreMix:
    """The weighted sum of scores, each ranking's stretched so that its last is 0 and its first 1.

    What a ranking lacks counts 0 there. Where all scores of a ranking are equal, all count 1.

    >>> ScoreMix((0.5, 0.5))([[(7, 9.0), (8, 5.0), (9, 1.0)], [(8, 0.7)]])
    [(8, 0.75), (7, 0.5), (9, 0.0)]
    """

    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        _check(self.weights)

    def __call__(self, rankings: Sequence[Scored]) -> Scored:
        """Return every key of any ranking with its new score, best first."""
        return _sums(
            (key, weight * score)
            for ranking, weight in _weighted(rankings, self.weights)
            for key, score in _stretched(ranking)
        )


def _check(weights: tuple[float, ...]) -> None:
    if not weights or not all(isfinite(weight) and weight > 0 for weight in weights):
        raise ConfigError(f"weights of rankings: {weights} are not all above 0")


def _weighted(
    rankings: Sequence[Scored], weights: tuple[float, ...]
) -> Iterable[tuple[Scored, float]]:
    if len(rankings) != len(weights):
        raise ConfigError(f"{len(rankings)} rankings for {len(weights)} weights; give each its own")
    return zip(rankings, weights, strict=True)


def _stretched(ranking: Scored) -> Iterable[tuple[int, float]]:
    if not ranking:
        return ()
    low, span = ranking[-1][1], ranking[0][1] - ranking[-1][1]
    return ((key, (score - low) / span if span > 0 else 1.0) for key, score in ranking)


def _sums(parts: Iterable[tuple[int, float]]) -> Scored:
    """Add up the parts of each key and order the keys, best first."""
    of: dict[int, list[float]] = {}
    for key, part in parts:
        of.setdefault(key, []).append(part)
    return sorted(
        ((key, fsum(found)) for key, found in of.items()), key=lambda hit: (-hit[1], hit[0])
    )
