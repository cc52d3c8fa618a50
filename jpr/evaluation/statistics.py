"""Confidence intervals and paired tests over questions, with fixed seeds."""

import math
from collections.abc import Sequence

import numpy as np

from jpr.oracle import Floats

RESAMPLES = 10_000
_SEED = 20211
_BLOCK = 4_000_000  # random numbers held in memory at a time


def bootstrap(values: Floats, level: float = 0.95) -> Floats:
    """Return (2 × measures) the percentile interval of the mean of each column.

    Rows are questions, resampled with replacement, the same for every column.

    >>> bootstrap(np.ones((50, 1))).tolist()
    [[1.0], [1.0]]
    """
    size = len(values)
    if not size:
        return np.full((2, values.shape[1]), np.nan)
    generator = np.random.default_rng(_SEED)
    rows = max(1, _BLOCK // size)
    means = []
    for start in range(0, RESAMPLES, rows):
        count = min(rows, RESAMPLES - start)
        drawn = generator.integers(size, size=(count, size)) + np.arange(count)[:, None] * size
        times = np.bincount(drawn.ravel(), minlength=count * size).reshape(count, size)
        means.append(times @ values / size)
    return np.quantile(np.concatenate(means), [(1 - level) / 2, (1 + level) / 2], axis=0)


def mcnemar(ours: Floats, theirs: Floats) -> float:
    """Return the exact two-sided p of McNemar's test on values that are 0 or 1.

    >>> round(mcnemar(np.array([1.0, 1, 1, 1, 1, 1]), np.zeros(6)), 9)  # 2 / 2**6
    0.03125
    """
    won = int(((ours > 0.5) & (theirs < 0.5)).sum())
    lost = int(((ours < 0.5) & (theirs > 0.5)).sum())
    n, few = won + lost, min(won, lost)
    if not n:
        return 1.0
    logs = [
        math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1) - n * math.log(2)
        for i in range(few + 1)
    ]
    return min(1.0, 2 * math.fsum(map(math.exp, logs)))


def permutation(ours: Floats, theirs: Floats) -> float:
    """Return the two-sided p of the paired permutation test on the mean difference.

    Exact up to 12 nonzero differences; beyond that, random sign patterns are sampled, with the
    observed one among them, so that p is never 0.

    >>> permutation(np.array([0.9, 0.8, 0.7]), np.array([0.1, 0.2, 0.3]))  # 2 of 2**3 patterns
    0.25
    """
    difference = (ours - theirs)[ours != theirs]
    if not len(difference):
        return 1.0
    observed = abs(difference.sum()) - 1e-12
    if len(difference) <= 12:
        patterns = np.arange(2 ** len(difference))[:, None] >> np.arange(len(difference)) & 1
        return float((np.abs((1 - 2 * patterns) @ difference) >= observed).mean())
    generator = np.random.default_rng(_SEED)
    rows = max(1, _BLOCK // len(difference))
    reached = 1
    for start in range(0, RESAMPLES, rows):
        shape = (min(rows, RESAMPLES - start), len(difference))
        flips = 1 - 2 * generator.integers(2, size=shape, dtype=np.int8)
        reached += int((np.abs(flips @ difference) >= observed).sum())
    return reached / (RESAMPLES + 1)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p-values corrected by Holm's method for multiple tests.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    p = np.array(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    corrected = np.minimum(1.0, np.arange(len(p), 0, -1) * p[order])
    p[order] = np.maximum.accumulate(corrected)
    found: list[float] = p.tolist()
    return found
