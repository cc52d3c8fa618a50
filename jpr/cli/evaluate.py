"""`jpr evaluate`: score runs on questions."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jpr.cli import screen
from jpr.errors import ConfigError

if TYPE_CHECKING:
    from jpr.judge.compare import Comparison
    from jpr.judge.evaluation import Evaluation
    from jpr.runs.qrels import Judgement
    from jpr.types import Question, Ranking

NAME = "evaluate"
HELP = """Score runs on questions: how often do the first k passages hold every answer?

A run is a file of rankings (ctxs JSON, TREC run, …); --answers takes files of answers instead.
Every question counts: one that a run lacks scores 0.

Example: jpr evaluate joint.jsonl --baseline first.jsonl --questions dev.jsonl -m MRecall@5

To see it work at once: jpr evaluate --example
"""
DEFAULT = ("MRecall@5", "MRecall@10", "alpha_nDCG(0.9)@5", "alpha_nDCG(0.9)@10")
STYLES = ("terminal", "markdown", "latex")
DEFAULT_BY_IDS = ("MRecall_clusters@5", "MRecall_clusters@10", *DEFAULT[2:])
_EXAMPLE = Path(__file__).parent.parent / "assets" / "example"


def run(
    runs: Annotated[list[Path] | None, typer.Argument(help="Files of rankings to score.")] = None,
    questions: Annotated[
        Path | None, typer.Option("--questions", "-q", help="File of questions with answers.")
    ] = None,
    measure: Annotated[
        list[str] | None,
        typer.Option("--measure", "-m", help="E.g. MRecall@5, alpha_nDCG(0.9)@10; repeatable."),
    ] = None,
    baseline: Annotated[
        Path | None, typer.Option(help="Run that the others are compared with, by paired tests.")
    ] = None,
    corpus: Annotated[
        Path | None, typer.Option(help="Passages, for runs that hold only ids (TREC).")
    ] = None,
    qrels: Annotated[
        Path | None, typer.Option(help="Judge by ids: 'question subtopic passage relevance'.")
    ] = None,
    pool: Annotated[
        Path | None, typer.Option(help="Run whose passages the ideal of α-nDCG may use as well.")
    ] = None,
    answers: Annotated[
        list[Path] | None,
        typer.Option(help="File of a system's answers, scored by AnswerF1 and EM; repeatable."),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Ignore answers that are a lone numeral or stop word.")
    ] = False,
    plots: Annotated[
        Path | None, typer.Option(help="Folder for the pictures (needs the plot extra).")
    ] = None,
    picture: Annotated[str, typer.Option(help="Kind of the pictures: svg, png or pdf.")] = "svg",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    style: Annotated[
        str, typer.Option("--table", help="How to print: terminal, markdown or latex.")
    ] = "terminal",
    details: Annotated[
        bool, typer.Option("--details", help="List the questions won and lost to the baseline.")
    ] = False,
    no_cache: Annotated[bool, typer.Option(help="Search all passages again.")] = False,
    example: Annotated[
        bool, typer.Option("--example", help="Score the example that comes with the package.")
    ] = False,
) -> None:
    """Read everything, score it, print it."""
    if style not in STYLES:
        raise ConfigError(f"--table {style}: choose one of {', '.join(STYLES)}")
    if example:
        runs, questions = [_EXAMPLE / "joint.jsonl"], _EXAMPLE / "questions.jsonl"
        baseline = _EXAMPLE / "independent.jsonl"
        measure = measure or ["Recall@5", "MRecall@5", "alpha_nDCG(0.9)@5"]
    if answers:
        evaluation = _score_answers(questions, answers)
        shown = len(evaluation.measures)
    else:
        paths = list(dict.fromkeys([*(runs or []), *([baseline] if baseline else [])]))
        reading = _Reading(questions, corpus, qrels, pool, strict, not no_cache)
        measures = tuple(measure or (DEFAULT if qrels is None else DEFAULT_BY_IDS))
        shown = len(measures)
        evaluation = _score_runs(paths, measures, reading, curve=plots is not None)
    _tell_what_is_odd(evaluation)
    compared = _compare(evaluation, str(baseline)) if baseline else []
    _print(evaluation, shown, compared, "json" if as_json else style)
    if details:
        _print_details(evaluation, shown, compared)
    if plots:
        _draw(evaluation, plots, picture)


@dataclass(frozen=True)
class _Reading:
    """Where the evaluation takes its inputs from."""

    questions: Path | None
    corpus: Path | None
    qrels: Path | None
    pool: Path | None
    strict: bool
    cache: bool


def _score_runs(
    paths: list[Path], names: tuple[str, ...], inputs: _Reading, curve: bool
) -> "Evaluation":
    from jpr.judge.evaluation import evaluate
    from jpr.judge.measures import parse_measure
    from jpr.judge.plots import curve_measures
    from jpr.runs.qrels import load_qrels

    if not paths:
        raise ConfigError("no run is given; try: jpr evaluate --example")
    measures = [parse_measure(name) for name in names]
    qrels = load_qrels(inputs.qrels) if inputs.qrels else []
    questions = _questions(inputs.questions, qrels)
    rankings = {str(path): _rankings(path, inputs.corpus) for path in paths}
    if curve and not qrels:
        longest = max((len(r.hits) for run in rankings.values() for r in run), default=1)
        measures += [m for m in curve_measures(longest) if m not in measures]
    pool = _rankings(inputs.pool, inputs.corpus) if inputs.pool else []
    with screen.progress("searching answers", len(questions)) as progress:
        return evaluate(
            questions,
            rankings,
            measures,
            pool=pool,
            qrels=qrels,
            strict=inputs.strict,
            workers=screen.workers(),
            cache=screen.cache_folder() if inputs.cache else None,
            progress=progress,
        )


def _questions(path: Path | None, qrels: "list[Judgement]") -> "list[Question]":
    from jpr.questions import load_questions
    from jpr.types import Question

    if path is not None:
        return load_questions(path)
    if not qrels:
        raise ConfigError("say which questions the runs answer: --questions FILE")
    return [Question(id, "") for id in dict.fromkeys(j.question_id for j in qrels)]


def _rankings(path: Path, corpus: Path | None) -> "list[Ranking]":
    from jpr.corpus import read_passages
    from jpr.runs import load_rankings
    from jpr.runs.texts import fill_texts

    rankings = load_rankings(path)
    return fill_texts(rankings, read_passages(corpus)) if corpus else rankings


def _score_answers(questions: Path | None, paths: list[Path]) -> "Evaluation":
    from jpr.judge.answers import EM, AnswerF1
    from jpr.judge.evaluation import evaluate_answers
    from jpr.runs.predictions import load_predictions

    systems = {str(path): load_predictions(path) for path in paths}
    return evaluate_answers(_questions(questions, []), systems, [AnswerF1, EM])


def _tell_what_is_odd(evaluation: "Evaluation") -> None:
    if evaluation.without_answers:
        screen.note(f"{len(evaluation.without_answers)} questions have no answer and are left out")
    for run in evaluation.runs:
        if run.missing:
            screen.note(f"{run.name}: {len(run.missing)} questions are missing and score 0")
        if run.unknown:
            screen.note(f"{run.name}: {len(run.unknown)} rankings are for other questions; ignored")
        if run.flat:
            screen.note(
                f"{run.name}: {run.flat} rankings have mostly equal scores, which order nothing: "
                "ties go by descending passage id; leave the scores out to keep the file's order"
            )


def _compare(evaluation: "Evaluation", baseline: str) -> "list[Comparison]":
    from jpr.judge.compare import compare

    return compare(evaluation, baseline)


def _print(evaluation: "Evaluation", shown: int, compared: "list[Comparison]", style: str) -> None:
    from jpr.judge import tables

    if style == "json":
        screen.say(json.dumps(tables.as_json(evaluation, shown, compared), ensure_ascii=False))
        return
    draw = dict(zip(STYLES, (None, tables.markdown, tables.latex), strict=True))
    names = {repr(measure) for measure in evaluation.measures[:shown]}
    both: list[tuple[Sequence[str], list[tuple[str, ...]]]] = [
        (tables.HEADER, tables.rows(evaluation, shown))
    ]
    if compared:
        kept = [comparison for comparison in compared if comparison.measure in names]
        both.append((tables.COMPARED, tables.compared_rows(evaluation, kept)))
    for header, rows in both:
        text = draw[style]
        if text is None:
            screen.table(header, rows)
        else:
            screen.say(text(header, rows))
        screen.say("")


def _print_details(evaluation: "Evaluation", shown: int, compared: "list[Comparison]") -> None:
    names = {repr(measure) for measure in evaluation.measures[:shown]}
    texts = {question.id: question.text for question in evaluation.questions}
    for comparison in compared:
        if comparison.slice == "all" and comparison.measure in names:
            screen.say(f"{comparison.run} against {comparison.baseline}, {comparison.measure}:")
            for sign, ids in (("+", comparison.wins), ("-", comparison.losses)):
                for id in ids:
                    screen.say(f"  {sign} {id}  {texts[id]}")


def _draw(evaluation: "Evaluation", folder: Path, kind: str) -> None:
    from jpr.judge.plots import plot_by_answers, plot_curve

    plot_by_answers(evaluation, repr(evaluation.measures[0]), folder / f"by-answers.{kind}")
    plot_curve(evaluation, folder / f"curve.{kind}")
    screen.note(f"pictures are in {folder}")
