"""Paired comparisons of runs with a baseline."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from jpr.errors import ConfigError
from jpr.evaluation.evaluation import ALL, MULTI, Evaluation
from jpr.evaluation.statistics import bootstrap, holm, mcnemar, permutation


@dataclass(frozen=True, slots=True)
class Comparison:
    """A run against the baseline, by one measure on one slice of the questions."""

    run: str
    baseline: str
    measure: str
    slice: str
    n: int
    difference: float
    low: float
    high: float
    """95 % interval of the difference, by paired bootstrap."""
    test: str
    """`McNemar` for measures that are 0 or 1, `permutation` for the others."""
    p: float
    p_holm: float
    """`p` corrected for multiple comparisons."""
    wins: tuple[str, ...]
    """Ids of the questions on which the run is better, largest difference first."""
    losses: tuple[str, ...]


def compare(
    evaluation: Evaluation, baseline: str, slices: Sequence[str] = (ALL, MULTI)
) -> list[Comparison]:
    """Compare every run with the baseline, by every measure and slice, corrected by Holm."""
    if baseline not in {run.name for run in evaluation.runs}:
        raise ConfigError(f"baseline {baseline!r} is not among the runs")
    base = evaluation.run(baseline)
    found: list[Comparison] = []
    for run, slice in product(evaluation.runs, slices):
        inside = evaluation.slice(slice)
        if run is base or not inside.any():
            continue
        ids = [q.id for q, here in zip(evaluation.questions, inside, strict=True) if here]
        ours, theirs = run.values[inside], base.values[inside]
        low, high = bootstrap(ours - theirs)
        for i, measure in enumerate(evaluation.measures):
            test = mcnemar if measure.binary else permutation
            difference = ours[:, i] - theirs[:, i]
            order = np.argsort(-np.abs(difference), kind="stable").tolist()
            found.append(
                Comparison(
                    run.name,
                    base.name,
                    repr(measure),
                    slice,
                    len(ids),
                    float(difference.mean()),
                    float(low[i]),
                    float(high[i]),
                    "McNemar" if measure.binary else "permutation",
                    test(ours[:, i], theirs[:, i]),
                    1.0,  # corrected below, when all comparisons are known
                    wins=tuple(ids[j] for j in order if difference[j] > 0),
                    losses=tuple(ids[j] for j in order if difference[j] < 0),
                )
            )
    corrected = holm([comparison.p for comparison in found])
    return [replace(c, p_holm=p) for c, p in zip(found, corrected, strict=True)]
