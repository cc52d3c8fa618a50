"""Score runs: every question counts, whether or not a run has it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jpr.coverage import Ints, Progress, cover, cover_by_ids
from jpr.errors import ConfigError, DataError
from jpr.judge.answers import AnswerMeasure, is_multi
from jpr.judge.best import Floats, best_cover, found, greedy
from jpr.judge.measures import Judged, Measure, MRecall, MRecall_clusters
from jpr.judge.pool import clusters_of, is_flat, pool_runs, positions_in, settle_ties
from jpr.judge.statistics import bootstrap
from jpr.runs.align import align, align_predictions
from jpr.runs.qrels import Judgement
from jpr.types import Prediction, Question, Ranking

ALL, MULTI = "all", "multi"


@dataclass(frozen=True, slots=True)
class Score:
    """The mean of a measure over a slice of the questions, with its 95 % interval."""

    value: float
    n: int
    low: float
    high: float


@dataclass(frozen=True, slots=True, eq=False)
class BestOrder:
    """What the best order of a run's own passages would score: its headroom."""

    values: Floats
    """(questions × measures), from the exact maximum coverage, or greedy where α counts."""
    bounds: Floats
    """The same from above: more than `values` only where the search was cut short."""


@dataclass(frozen=True, slots=True, eq=False)
class RunScores:
    """A run's value for every question and measure."""

    name: str
    values: Floats
    """(questions × measures)"""
    missing: tuple[str, ...]
    """Questions that the run lacks: they score 0."""
    unknown: tuple[str, ...]
    """Rankings for questions that were not asked: they are ignored."""
    flat: int = 0
    """Questions whose passages mostly have equal scores; ties go by descending passage id."""
    best: BestOrder | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """Scores of several runs on the same questions."""

    questions: tuple[Question, ...]
    n_answers: Ints
    multi: NDArray[np.bool_]
    """Which questions count as having several answers."""
    measures: tuple[Measure | AnswerMeasure, ...]
    runs: tuple[RunScores, ...]
    without_answers: tuple[str, ...] = ()
    """Questions left out because no answer to them is known."""

    def slice(self, name: str) -> NDArray[np.bool_]:
        """Return which questions a slice holds: `all`, `multi`, or those with n answers, `"3"`."""
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
    relevant = clusters_of(qrels)
    known = [q for q in questions if q.answers or q.regex or q.id in relevant]
    if not known:
        raise DataError("no question has an answer; give a questions file that holds them")
    aligned = {name: align(known, rankings) for name, rankings in runs.items()}
    ordered = {name: [settle_ties(r) for r in run.rankings] for name, run in aligned.items()}
    others = [align(known, pool).rankings] if pool else []
    pooled = pool_runs(known, [*ordered.values(), *others], relevant)
    if qrels:
        coverage = cover_by_ids(pooled, relevant)
    else:
        _check_texts(pooled)
        coverage = cover(pooled, strict=strict, workers=workers, cache=cache, progress=progress)
    scored = []
    for name, run in aligned.items():
        judged = Judged(coverage.reorder(positions_in(ordered[name], pooled)), coverage)
        scored.append(
            RunScores(
                name,
                np.column_stack([measure.of(judged) for measure in measures]),
                run.missing,
                run.unknown,
                sum(map(is_flat, run.rankings)),
                _best(judged, measures),
            )
        )
    n_answers = coverage.n_answers
    lacking = (
        tuple(q.id for q in questions if q not in known) if len(known) < len(questions) else ()
    )
    return Evaluation(
        tuple(known), n_answers, n_answers > 1, tuple(measures), tuple(scored), lacking
    )


def evaluate_answers(
    questions: Sequence[Question],
    systems: Mapping[str, Iterable[Prediction]],
    measures: Sequence[AnswerMeasure],
) -> Evaluation:
    """Score the answers that systems gave; a question without any scores 0."""
    known = [question for question in questions if question.answers or question.annotations]
    if not known:
        raise DataError("no question has an answer; give a questions file that holds them")
    scored = []
    for name, predictions in systems.items():
        given = align_predictions(known, predictions)
        rows = [
            [measure.value(question, prediction.answers) for measure in measures]
            for question, prediction in zip(known, given.predictions, strict=True)
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
        raise ConfigError("no measure is asked for; write for example MRecall@5")
    names = {measure.name for measure in measures}
    if by_ids and MRecall.name in names:
        raise ConfigError("MRecall counts answer strings; with qrels write MRecall_clusters")
    if not by_ids and MRecall_clusters.name in names:
        raise ConfigError("MRecall_clusters counts gold passage ids; it needs qrels")


def _check_texts(pooled: Sequence[Ranking]) -> None:
    hits = [hit for ranking in pooled for hit in ranking.hits]
    if hits and not any(hit.passage.text or hit.passage.title for hit in hits):
        raise DataError(
            "the run holds passage ids only; give their texts with --corpus or judgements with "
            "--qrels"
        )


def _best(judged: Judged, measures: Sequence[Measure]) -> BestOrder:
    """Score the best order of each question's own passages."""
    values, bounds = [], []
    for measure in measures:
        if measure.of_found is None:
            positions = greedy(judged.run, measure.k, measure.alpha).positions()
            values.append(measure.of(Judged(judged.run.reorder(positions), judged.pool)))
            bounds.append(values[-1])
        else:
            order = best_cover(judged.run, measure.k)
            covered = found(judged.run.reorder(order.positions), measure.k)
            for counts, into in ((covered, values), (order.bounds, bounds)):
                into.append(measure.of_found(counts, judged.run.n_answers, measure.k))
    return BestOrder(np.column_stack(values), np.column_stack(bounds))
