"""Measures of a ranking, as values: `MRecall @ 5`, `alpha_nDCG(0.9) @ 10`.

A measure maps coverage (which ranks contain which answers) to a value in [0, 1] per question.
`docs/measures.md` has the formulas and references.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jpr.coverage import Coverage, Ints, starts
from jpr.errors import ConfigError
from jpr.oracle import Floats, found, greedy, sums_of

MAX_K = 1_000_000


@dataclass(frozen=True, slots=True, eq=False)
class JudgedRun:
    """A run's coverage, and that of the pool: all passages an ideal ranking may use.

    The pool is in descending order of passage ids, which breaks ties as `ndeval` does.
    """

    run: Coverage
    pool: Coverage


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure; `measure @ k` cuts the ranking after k, `measure(alpha)` sets α.

    >>> alpha_nDCG(0.9) @ 10
    alpha_nDCG(0.9)@10
    """

    name: str
    of_found: Callable[[Ints, Ints, int], NDArray[Any]] | None = None
    """The value from (answers found in the first k, number of answers, k)."""
    of_ranks: Callable[[JudgedRun, int, float], Floats] | None = None
    """The value from the ranks of the answers, k and α."""
    binary: bool = False
    """Whether every value is 0 or 1, so that McNemar's test applies."""
    greedy_is_optimal: bool = False
    """Whether no ordering beats the greedy one."""
    k: int = 0
    """Cut-off; 0 until `@ k` sets it."""
    alpha: float | None = None
    """Penalty of a repeated answer; None if it is not set or not used."""

    def __matmul__(self, k: int) -> "Measure":
        if not isinstance(k, int) or isinstance(k, bool) or not 1 <= k <= MAX_K:
            raise ConfigError(f"{self.name}@{k}: k must be a whole number from 1 to {MAX_K:,}")
        return replace(self, k=k)

    def __call__(self, alpha: float) -> "Measure":
        """Return the measure with its α (redundancy intolerance) set."""
        if self.of_ranks is None:
            raise ConfigError(f"{self.name} takes no α; write {self.name}@5")
        if not 0 <= alpha <= 1:
            raise ConfigError(f"{self.name}({alpha}): α must be between 0 and 1")
        return replace(self, alpha=alpha)

    def __repr__(self) -> str:
        alpha = "" if self.of_found else "(?)" if self.alpha is None else f"({self.alpha!r})"
        return f"{self.name}{alpha}@{self.k or '?'}"

    def check(self) -> None:
        """Reject a measure without its k or α."""
        if not self.k:
            raise ConfigError(f"{self.name} needs its k: write {self.name}@5")
        if self.of_ranks and self.alpha is None:
            raise ConfigError(
                f"{self.name} needs its α: the paper's is {self.name}(0.9)@{self.k}, "
                f"ndeval's {self.name}(0.5)@{self.k}"
            )

    def of(self, judged: JudgedRun) -> Floats:
        """Return the measure's value for each question."""
        self.check()
        if self.of_ranks is not None and self.alpha is not None:
            return self.of_ranks(judged, self.k, self.alpha)
        return self.of_counts(found(judged.run, self.k), judged.run.n_answers)

    def of_counts(self, found: Ints, n_answers: Ints) -> Floats:
        """Return the value for each question from the answers found in the first k."""
        assert self.of_found is not None
        return self.of_found(found, n_answers, self.k).astype(np.float64)


def _recall(found: Ints, n: Ints, k: int) -> NDArray[np.bool_]:
    return found > 0


def mrecall(found: NDArray[np.integer], n: NDArray[np.integer], k: int) -> NDArray[np.bool_]:
    """Return for which questions k passages contain all n answers, or k of them (paper, 2.2)."""
    reached: NDArray[np.bool_] = (found >= np.minimum(n, k)) & (n > 0)
    return reached


def _mrecall_superset(found: Ints, n: Ints, k: int) -> NDArray[np.bool_]:
    return (found >= n) & (n > 0)


def _subtopic_recall(found: Ints, n: Ints, k: int) -> Floats:
    return np.divide(found, np.maximum(n, 1))


def _alpha_ndcg(judged: JudgedRun, k: int, alpha: float) -> Floats:
    k = min(k, int(judged.pool.n_passages.max(initial=1)))  # no ranking is longer than the pool
    discount = 1 / np.log2(np.arange(k) + 2)
    gained = _gains(judged.run, k, alpha) @ discount
    ideal = greedy(judged.pool, k, alpha).gains @ discount
    return np.divide(gained, ideal, out=np.zeros_like(gained), where=ideal > 0)


def _err_ia(judged: JudgedRun, k: int, alpha: float) -> Floats:
    discount = 1 / (np.arange(k) + 1)
    best = judged.run.n_answers * ((1 - alpha) ** np.arange(k) @ discount)
    gains = _gains(judged.run, min(k, int(judged.run.n_passages.max(initial=1))), alpha)
    gained = gains @ discount[: gains.shape[1]]
    return np.divide(gained, best, out=np.zeros_like(gained), where=best > 0)


def _gains(run: Coverage, k: int, alpha: float) -> Floats:
    """Return (questions × k) the gain at each rank: Σ over its answers of (1-α)^times seen."""
    top = run.rank < k
    question, rank, answer = run.question[top], run.rank[top], run.answer[top]
    offsets = starts(run.n_answers)
    order = np.lexsort((rank, offsets[question] + answer))
    group = (offsets[question] + answer)[order]
    new = np.ones(len(group), dtype=bool)
    new[1:] = group[1:] != group[:-1]
    at = np.arange(len(group))
    seen_before = at - np.maximum.accumulate(np.where(new, at, 0))
    gain = np.power(1 - alpha, seen_before)  # 0 ** 0 is 1: with α = 1 only the first counts
    cell = (question * k + rank)[order]
    return sums_of(cell, gain, len(run) * k).reshape(len(run), k)


MRecall = Measure("MRecall", mrecall, binary=True, greedy_is_optimal=True)
MRecall_superset = Measure("MRecall_superset", _mrecall_superset, binary=True)
MRecall_clusters = Measure("MRecall_clusters", mrecall, binary=True, greedy_is_optimal=True)
Recall = Measure("Recall", _recall, binary=True, greedy_is_optimal=True)
StRecall = Measure("StRecall", _subtopic_recall)
alpha_nDCG = Measure("alpha_nDCG", of_ranks=_alpha_ndcg)
ERR_IA = Measure("ERR_IA", of_ranks=_err_ia, alpha=0.5)

_ALL = (MRecall, MRecall_superset, MRecall_clusters, Recall, StRecall, alpha_nDCG, ERR_IA)
MEASURES = {measure.name: measure for measure in _ALL}
_FORM = re.compile(
    r"(?P<name>\w+)(\((alpha=)?(?P<alpha>[0-9]+\.?[0-9]*|\.[0-9]+)\))?@(?P<k>[0-9]+)"
)


def parse_measure(text: str) -> Measure:
    """Parse the name of a measure.

    >>> parse_measure("alpha_nDCG(0.9)@10") == alpha_nDCG(0.9) @ 10
    True
    """
    form = _FORM.fullmatch(text.replace(" ", ""))
    if form is None:
        raise ConfigError(f"{text!r} is not a measure; write for example MRecall@5")
    measure = MEASURES.get(form["name"])
    if measure is None:
        folded = {name.casefold(): name for name in MEASURES}
        close = get_close_matches(form["name"].casefold(), folded, n=1)
        hint = f"did you mean {folded[close[0]]}?" if close else f"known: {', '.join(MEASURES)}"
        raise ConfigError(f"unknown measure {form['name']!r}; {hint}")
    if form["alpha"]:
        measure = measure(float(form["alpha"]))
    if len(form["k"]) > len(str(MAX_K)):
        raise ConfigError(f"{text}: k must be a whole number from 1 to {MAX_K:,}")
    measure @= int(form["k"])
    measure.check()
    return measure
