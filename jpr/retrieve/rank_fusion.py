"""Rank fusion: several rankings into one, by ranks or by normalized scores.

A ranking is a list of (key, score), best first, with distinct keys. Contributions are summed
exactly (`math.fsum`), so the order of the rankings does not matter; ties go to the smaller key.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import fsum, isfinite
from typing import Protocol

from jpr.errors import ConfigError

Scored = list[tuple[int, float]]
"""Rows with their scores, best first."""


class Fusion(Protocol):
    """Makes one ranking of several; its `repr` names all settings."""

    @property
    def weights(self) -> tuple[float, ...]:
        """The weight of each ranking."""

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
    """The larger, the smaller the advantage of the first ranks."""

    def __post_init__(self) -> None:
        _check(self.weights)
        if not (isfinite(self.constant) and self.constant >= 0):
            raise ConfigError(f"constant is {self.constant}; it must be 0 or more")

    def __call__(self, rankings: Sequence[Scored]) -> Scored:
        """Return every key of any ranking with its new score, best first."""
        return _sums(
            (key, weight / (self.constant + rank))
            for ranking, weight in _weighted(rankings, self.weights)
            for rank, (key, _) in enumerate(ranking, start=1)
        )


@dataclass(frozen=True, slots=True)
class ScoreMix:
    """The weighted sum of scores after min-max normalization of each ranking.

    A passage that a ranking lacks gets 0 from it. If all scores of a ranking are equal, all are 1.

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
            for key, score in _normalized(ranking)
        )


def _check(weights: tuple[float, ...]) -> None:
    if not weights or not all(isfinite(weight) and weight > 0 for weight in weights):
        raise ConfigError(f"weights of rankings are {weights}; all must be above 0")


def _weighted(
    rankings: Sequence[Scored], weights: tuple[float, ...]
) -> Iterable[tuple[Scored, float]]:
    if len(rankings) != len(weights):
        raise ConfigError(f"{len(rankings)} rankings but {len(weights)} weights; give one each")
    return zip(rankings, weights, strict=True)


def _normalized(ranking: Scored) -> Iterable[tuple[int, float]]:
    if not ranking:
        return ()
    low, span = ranking[-1][1], ranking[0][1] - ranking[-1][1]
    return ((key, (score - low) / span if span > 0 else 1.0) for key, score in ranking)


def _sums(parts: Iterable[tuple[int, float]]) -> Scored:
    """Sum the parts of each key and sort the keys, best first."""
    by_key: dict[int, list[float]] = {}
    for key, part in parts:
        by_key.setdefault(key, []).append(part)
    sums = ((key, fsum(found)) for key, found in by_key.items())
    return sorted(sums, key=lambda hit: (-hit[1], hit[0]))
