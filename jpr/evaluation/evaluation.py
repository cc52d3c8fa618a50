"""Score runs; a question that a run lacks scores 0."""

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from jpr.coverage import Ints, cover, cover_by_ids
from jpr.errors import ConfigError, DataError
from jpr.evaluation.answers import AnswerMeasure, is_multi
from jpr.evaluation.measures import JudgedRun, Measure, MRecall, MRecall_clusters
from jpr.evaluation.pool import (
    Clusters,
    break_ties,
    has_tied_scores,
    pool_runs,
    positions_in,
    relevant_clusters,
)
from jpr.evaluation.statistics import bootstrap
from jpr.formats.runs.align import align, align_predictions
from jpr.formats.runs.trec import Judgement
from jpr.oracle import Floats, Order, best_cover, greedy
from jpr.stages import Progress
from jpr.types import Prediction, Question, Ranking

ALL, MULTI = "all", "multi"


@dataclass(frozen=True, slots=True)
class Score:
    """The mean of a measure over a slice of the questions, with its 95 % interval."""

    value: float
    n: int
    low: float
    high: float


class OracleScores(NamedTuple):
    """What the oracle ordering of a run's own passages scores: the upper bound of a reranker."""

    values: Floats
    """(questions × measures), from the exact maximum coverage; for measures with α, whose exact
    optimum is out of reach, from the greedy order."""
    greedy: Floats
    """From the greedy order."""
    bounds: Floats
    """Upper bounds: above `values` only if the search was cut short."""


@dataclass(frozen=True, slots=True, eq=False)
class RunScores:
    """A run's value for every question and measure."""

    name: str
    values: Floats
    """(questions × measures)"""
    missing: tuple[str, ...] = ()
    """Questions that the run lacks; they score 0."""
    unknown: tuple[str, ...] = ()
    """Rankings for other questions; ignored."""
    differing: tuple[str, ...] = ()
    """Questions with another text under the same id in the run."""
    flat: int = 0
    """Questions whose passages mostly have equal scores; ties are ordered by descending id."""
    bare: int = 0
    """Passages without text, in which no answer can be found."""
    oracle: OracleScores | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """Scores of several runs on the same questions."""

    questions: tuple[Question, ...]
    n_answers: Ints
    multi: NDArray[np.bool_]
    """Which questions have several answers."""
    measures: tuple[Measure | AnswerMeasure, ...]
    runs: tuple[RunScores, ...]
    without_answers: tuple[str, ...] = ()
    """Questions left out because no answer is known."""

    def slice(self, name: str) -> NDArray[np.bool_]:
        """Return the mask of a slice: `all`, `multi`, or a number of answers such as `"3"`."""
        if name == ALL:
            return np.ones(len(self.questions), dtype=np.bool_)
        return self.multi if name == MULTI else self.n_answers == int(name)

    def scores(self, run: RunScores, slice: str = ALL) -> list[Score]:
        """Return one score per measure over a slice of the questions."""
        values = run.values[self.slice(slice)]
        low, high = bootstrap(values)
        means = values.mean(axis=0) if len(values) else np.full(len(self.measures), np.nan)
        return [
            Score(float(m), len(values), float(a), float(b))
            for m, a, b in zip(means, low, high, strict=True)
        ]

    def first(self, n: int) -> "Evaluation":
        """Keep the first n measures."""
        runs = []
        for run in self.runs:
            oracle = run.oracle and OracleScores(*(scores[:, :n] for scores in run.oracle))
            runs.append(replace(run, values=run.values[:, :n], oracle=oracle))
        return replace(self, measures=self.measures[:n], runs=tuple(runs))

    def run(self, name: str) -> RunScores:
        """Return the run with this name."""
        return next(run for run in self.runs if run.name == name)


def evaluate(
    questions: Sequence[Question],
    runs: Mapping[str, Iterable[Ranking]],
    measures: Sequence[Measure],
    *,
    pool: Sequence[Ranking] = (),
    qrels: Sequence[Judgement] = (),
    strict: bool = False,
    workers: int = 1,
    cache: Path | None = None,
    progress: Progress = lambda _: None,
) -> Evaluation:
    """Score runs on questions.

    The ideal of α-nDCG may use every passage of the runs and of `pool`. With `qrels`, passages are
    judged by id instead of by the answers in their texts.
    """
    _check(measures, by_ids=bool(qrels))
    relevant = relevant_clusters(qrels)
    inside = _judgeable(questions, relevant if qrels else None)
    known = list(compress(questions, inside))
    aligned = {name: align(questions, rankings) for name, rankings in runs.items()}
    ordered = {
        name: [break_ties(ranking) for ranking in compress(run.items, inside)]
        for name, run in aligned.items()
    }
    others = [list(compress(align(questions, pool).items, inside))] if pool else []
    pooled = pool_runs(known, [*ordered.values(), *others], relevant)
    if qrels:
        coverage = cover_by_ids(pooled, relevant)
    else:
        coverage = cover(pooled, strict=strict, workers=workers, cache=cache, progress=progress)
    ids = {question.id for question in known}
    scored = []
    for name, run in aligned.items():
        rankings = ordered[name]
        judged = JudgedRun(coverage.reorder(positions_in(rankings, pooled)), coverage)
        scored.append(
            RunScores(
                name,
                np.column_stack([measure.of(judged) for measure in measures]),
                missing=tuple(id for id in run.missing if id in ids),
                unknown=run.unknown,
                differing=tuple(id for id in run.differing if id in ids),
                flat=sum(map(has_tied_scores, rankings)),
                bare=0 if qrels else _count_bare(name, rankings, pooled),
                oracle=_oracle(judged, measures),
            )
        )
    return Evaluation(
        tuple(known),
        coverage.n_answers,
        coverage.n_answers > 1,
        tuple(measures),
        tuple(scored),
        without_answers=tuple(q.id for q, here in zip(questions, inside, strict=True) if not here),
    )


def _judgeable(questions: Sequence[Question], relevant: Clusters | None) -> list[bool]:
    """Return for each question whether an answer or a relevant passage is known."""
    if relevant is None:
        inside = [bool(question.answers or question.regex) for question in questions]
        problem = "no question has an answer; give a file of questions with answers"
    else:
        inside = [question.id in relevant for question in questions]
        problem = "no question has a relevant judgement; check that the question ids match"
    if not any(inside):
        raise DataError(problem)
    return inside


def evaluate_answers(
    questions: Sequence[Question],
    systems: Mapping[str, Iterable[Prediction]],
    measures: Sequence[AnswerMeasure],
) -> Evaluation:
    """Score the answers that systems gave; a question without any scores 0."""
    known = [question for question in questions if question.answers or question.annotations]
    if not known:
        raise DataError("no question has an answer; give a file of questions with answers")
    scored = []
    for name, predictions in systems.items():
        given = align_predictions(known, predictions)
        rows = [
            [measure.value(question, prediction.answers) for measure in measures]
            for question, prediction in zip(known, given.items, strict=True)
        ]
        scored.append(RunScores(name, np.array(rows), given.missing, given.unknown))
    return Evaluation(
        tuple(known),
        np.array([len(question.answers) for question in known]),
        np.array([is_multi(question) for question in known]),
        tuple(measures),
        tuple(scored),
        tuple(q.id for q in questions if not (q.answers or q.annotations)),
    )


def _check(measures: Sequence[Measure], by_ids: bool) -> None:
    if not measures:
        raise ConfigError("no measure is given; write for example MRecall@5")
    for measure in measures:
        measure.check()
    if len(set(measures)) < len(measures):
        raise ConfigError("a measure is given twice")
    names = {measure.name for measure in measures}
    if by_ids and MRecall.name in names:
        raise ConfigError("MRecall counts answer strings; with qrels write MRecall_clusters")
    if not by_ids and MRecall_clusters.name in names:
        raise ConfigError("MRecall_clusters counts gold passage ids; it needs qrels")


def _count_bare(name: str, rankings: Sequence[Ranking], pooled: Sequence[Ranking]) -> int:
    """Count a run's passages that have no text even in the pool; reject a run without any text."""
    bare = 0
    for ranking, pool in zip(rankings, pooled, strict=True):
        unknown = {hit.passage.id for hit in pool.hits if hit.passage.is_bare}
        bare += sum(hit.passage.id in unknown for hit in ranking.hits)
    if bare and bare == sum(len(ranking.hits) for ranking in rankings):
        raise DataError(
            f"{name}: the run holds only passage ids; give texts with --corpus or judgements "
            "with --qrels"
        )
    return bare


def _oracle(judged: JudgedRun, measures: Sequence[Measure]) -> OracleScores:
    """Score the oracle ordering of each question's own passages."""
    run, longest = judged.run, max(measure.k for measure in measures)

    @functools.cache
    def greedy_order(alpha: float) -> JudgedRun:  # its prefix of length k is the greedy order for k
        return JudgedRun(run.reorder(greedy(run, longest, alpha).positions()), judged.pool)

    @functools.cache
    def exact_order(k: int) -> Order:
        return best_cover(run, k)

    scores = []
    for measure in measures:
        alpha = 1.0 if measure.alpha is None else measure.alpha
        value = bound = quick = measure.of(greedy_order(alpha))
        if measure.of_found and not measure.greedy_is_optimal:
            order = exact_order(measure.k)
            value = measure.of(JudgedRun(run.reorder(order.positions), judged.pool))
            bound = measure.of_counts(order.bounds, run.n_answers)
        scores.append((value, quick, bound))
    return OracleScores(*map(np.column_stack, zip(*scores, strict=True)))
