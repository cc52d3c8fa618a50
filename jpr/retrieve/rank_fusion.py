"""Rank fusion: several rankings into one, by ranks or by normalized scores.

A ranking is a list of (key, score), best first, with distinct keys. Contributions are summed
exactly (`math.fsum`), so the order of the rankings does not matter; ties go to the smaller key.
"""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from math import fsum, isfinite

from jpr.errors import ConfigError

Scored = list[tuple[int, float]]
"""Rows with their scores, best first."""
Fuse = Callable[[Sequence[Scored]], Scored]
"""Makes one ranking of several; its `repr` names all settings."""


def ranked(scores: Iterable[tuple[int, float]]) -> Scored:
    """Sort rows by their scores, best first; ties by row."""
    return sorted(scores, key=lambda hit: (-hit[1], hit[0]))


@dataclass(frozen=True, slots=True)
class Fusion(ABC):
    """A fusion with fixed weights."""

    weights: tuple[float, ...]
    """The weight of each ranking."""

    def __post_init__(self) -> None:
        if not self.weights or not all(isfinite(weight) and weight > 0 for weight in self.weights):
            raise ConfigError(f"weights of rankings are {self.weights}; all must be above 0")

    @abstractmethod
    def contributions(self, ranking: Scored, weight: float) -> Iterable[tuple[int, float]]:
        """Return what a ranking adds to the score of each of its keys."""

    def __call__(self, rankings: Sequence[Scored]) -> Scored:
        """Return every key of any ranking with its new score, best first."""
        n, m = len(rankings), len(self.weights)
        if n != m:
            raise ConfigError(f"{n} rankings but {m} weights; give one each")
        by_key: defaultdict[int, list[float]] = defaultdict(list)
        for ranking, weight in zip(rankings, self.weights, strict=True):
            for key, part in self.contributions(ranking, weight):
                by_key[key].append(part)
        return ranked((key, fsum(parts)) for key, parts in by_key.items())


@dataclass(frozen=True, slots=True)
class ReciprocalRanks(Fusion):
    """Reciprocal rank fusion (Cormack et al., 2009): the sum of weight / (constant + rank).

    >>> fused = ReciprocalRanks((1.0, 1.0))([[(7, 9.1), (8, 2.0)], [(8, 0.5)]])
    >>> [(key, round(score, 4)) for key, score in fused]  # 8: 1/62 + 1/61
    [(8, 0.0325), (7, 0.0164)]
    """

    constant: float = 60.0
    """The larger, the smaller the advantage of the first ranks."""

    def __post_init__(self) -> None:
        Fusion.__post_init__(self)
        if not (isfinite(self.constant) and self.constant >= 0):
            raise ConfigError(f"constant is {self.constant}; it must be 0 or more")

    def contributions(self, ranking: Scored, weight: float) -> Iterable[tuple[int, float]]:
        """Return the weighted reciprocal ranks."""
        ranks = enumerate(ranking, start=1)
        return ((key, weight / (self.constant + rank)) for rank, (key, _) in ranks)


class ScoreMix(Fusion):
    """The weighted sum of scores after min-max normalization of each ranking.

    A passage that a ranking lacks gets 0 from it. If all scores of a ranking are equal, all are 1.

    >>> ScoreMix((0.5, 0.5))([[(7, 9.0), (8, 5.0), (9, 1.0)], [(8, 0.7)]])
    [(8, 0.75), (7, 0.5), (9, 0.0)]
    """

    def contributions(self, ranking: Scored, weight: float) -> Iterable[tuple[int, float]]:
        """Return the weighted normalized scores."""
        if not ranking:
            return ()
        low, span = ranking[-1][1], ranking[0][1] - ranking[-1][1]
        return (
            (key, weight * ((score - low) / span if span > 0 else 1.0)) for key, score in ranking
        )


def strongest(rankings: Sequence[Scored]) -> Scored:
    """Return every key of any ranking with its largest score, each ranking scaled to 0 … 1.

    A single ranking is returned as it is.

    >>> strongest([[(7, 9.0), (8, 5.0), (9, 1.0)], [(8, 0.9), (7, 0.1)]])
    [(7, 1.0), (8, 1.0), (9, 0.0)]
    """
    if len(rankings) == 1:
        return rankings[0]
    scale, best = ScoreMix((1.0,)), dict[int, float]()
    for key, score in chain.from_iterable(scale([ranking]) for ranking in rankings):
        best[key] = max(score, best.get(key, 0.0))
    return ranked(best.items())
