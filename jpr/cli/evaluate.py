"""`jpr evaluate`: score runs on questions."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jpr.cli import screen
from jpr.cli.inputs import Inputs, score_answers, score_runs
from jpr.errors import ConfigError

if TYPE_CHECKING:
    from jpr.evaluation.answers import AnswerMeasure
    from jpr.evaluation.compare import Comparison
    from jpr.evaluation.evaluation import Evaluation
    from jpr.evaluation.measures import Measure

NAME = "evaluate"
HELP = """Score runs: how often do k passages hold every answer?

A run is a file of rankings (ctxs JSON, TREC run, …); --answers takes files of answers instead.
Every question counts: one that a run lacks scores 0.

Example: jpr evaluate joint.jsonl --baseline first.jsonl --questions dev.jsonl -m MRecall@5

To see it work at once: jpr evaluate --example
"""
DEFAULT = ("MRecall@5", "MRecall@10", "alpha_nDCG(0.9)@5", "alpha_nDCG(0.9)@10")
DEFAULT_BY_IDS = ("MRecall_clusters@5", "MRecall_clusters@10", *DEFAULT[2:])
STYLES = ("terminal", "markdown", "latex")
_EXAMPLE = Path(__file__).parent.parent / "assets" / "example"
_SHOWN = ("Recall@5", "MRecall@5", "alpha_nDCG(0.9)@5")

_Option = typer.Option
_Runs = Annotated[list[Path] | None, typer.Argument(help="Files of rankings to score.")]
_Questions = Annotated[
    Path | None, _Option("--questions", "-q", help="File of questions with answers.")
]
_Measures = Annotated[
    list[str] | None,
    _Option("--measure", "-m", help="E.g. MRecall@5, alpha_nDCG(0.9)@10; repeatable."),
]
_Baseline = Annotated[
    Path | None, _Option(help="File that the others are compared with, by paired tests.")
]
_Corpus = Annotated[Path | None, _Option(help="Passages, for runs that hold only ids (TREC).")]
_Qrels = Annotated[
    Path | None, _Option(help="Judge by ids: 'question subtopic passage relevance'.")
]
_Pool = Annotated[
    Path | None, _Option(help="Run whose passages the ideal of α-nDCG may use as well.")
]
_Answers = Annotated[
    list[Path] | None,
    _Option(help="File of a system's answers, scored by AnswerF1 and EM; repeatable."),
]
_Strict = Annotated[
    bool, _Option("--strict", help="Do not count a lone numeral or stop word as found.")
]
_Plots = Annotated[Path | None, _Option(help="Folder for the pictures (needs the plot extra).")]
_Picture = Annotated[str, _Option(help="Kind of the pictures: svg, png or pdf.")]
_Json = Annotated[bool, _Option("--json", help="Print one JSON object.")]
_Style = Annotated[str, _Option("--table", help="How to print: terminal, markdown or latex.")]
_Details = Annotated[
    bool, _Option("--details", help="List the questions won and lost to the baseline.")
]
_NoCache = Annotated[bool, _Option("--no-cache", help="Search all passages again.")]
_Example = Annotated[
    bool, _Option("--example", help="Score the example that comes with the package.")
]


def run(
    runs: _Runs = None,
    questions: _Questions = None,
    measure: _Measures = None,
    baseline: _Baseline = None,
    corpus: _Corpus = None,
    qrels: _Qrels = None,
    pool: _Pool = None,
    answers: _Answers = None,
    strict: _Strict = False,
    plots: _Plots = None,
    picture: _Picture = "svg",
    as_json: _Json = False,
    style: _Style = "terminal",
    details: _Details = False,
    no_cache: _NoCache = False,
    example: _Example = False,
) -> None:
    """Read everything, score it, print it."""
    files = {"runs": runs, "--corpus": corpus, "--qrels": qrels, "--pool": pool}
    if example:
        more = {"--questions": questions, "--baseline": baseline, "--answers": answers}
        _refuse("--example has its own files", files | more)
        questions, measure = _EXAMPLE / "questions.jsonl", measure or list(_SHOWN)
        runs, baseline = [_EXAMPLE / "joint.jsonl"], _EXAMPLE / "independent.jsonl"
    if answers:
        unused = {"--strict": strict, "--plots": plots, "--no-cache": no_cache}
        _refuse("--answers are scored by themselves", {**files, **unused})
    style = "json" if as_json else style
    _check_output(style, details, baseline, picture if plots else None)
    paths = list(dict.fromkeys([*(answers or runs or []), *([baseline] if baseline else [])]))
    if answers:
        whole = shown = score_answers(_answer_measures(measure), paths, questions)
    else:
        measures = _measures(measure or (DEFAULT_BY_IDS if qrels else DEFAULT))
        inputs = Inputs(paths, questions, corpus, qrels, pool, strict, not no_cache)
        shown = (whole := score_runs(measures, inputs, bool(plots))).first(len(measures))
    _tell_what_is_odd(shown, "answers" if answers else "rankings")
    _print(shown, baseline, style, details)
    _draw(whole, plots, picture)


def _refuse(why: str, options: Mapping[str, object]) -> None:
    """Refuse options that would be ignored."""
    if given := [name for name, value in options.items() if value]:
        raise ConfigError(f"{why}; leave out {', '.join(given)}")


def _check_output(style: str, details: bool, baseline: Path | None, picture: str | None) -> None:
    if style not in (*STYLES, "json"):
        raise ConfigError(f"--table {style}: choose one of {', '.join(STYLES)}")
    if details and style == "json":
        raise ConfigError("--json holds the questions won and lost already; leave out --details")
    if details and baseline is None:
        raise ConfigError("--details compares with a baseline; name it: --baseline FILE")
    if picture:
        from jpr.evaluation.plots import check_picture

        check_picture(picture)


def _measures(names: Sequence[str]) -> "list[Measure]":
    from jpr.evaluation.answers import EM, AnswerF1
    from jpr.evaluation.measures import parse_measure

    for name in names:
        if name in (AnswerF1.name, EM.name):
            raise ConfigError(f"{name} scores answers; give them with --answers FILE")
    return [parse_measure(name) for name in names]


def _answer_measures(names: Sequence[str] | None) -> "list[AnswerMeasure]":
    from jpr.evaluation.answers import EM, AnswerF1

    known = {measure.name: measure for measure in (AnswerF1, EM)}
    for name in names or ():
        if name not in known:
            raise ConfigError(f"{name!r} does not score answers; choose {' or '.join(known)}")
    return [known[name] for name in dict.fromkeys(names or known)]


def _tell_what_is_odd(evaluation: "Evaluation", kind: str) -> None:
    if evaluation.without_answers:
        screen.note(f"{len(evaluation.without_answers)} questions have no answer and are left out")
    for run in evaluation.runs:
        if run.missing:
            screen.note(f"{run.name}: {len(run.missing)} questions are missing and score 0")
        if run.unknown:
            screen.note(f"{run.name}: {len(run.unknown)} {kind} are for other questions; ignored")
        if run.differing:
            screen.note(
                f"{run.name}: {len(run.differing)} {kind} repeat another text of their question, "
                f"e.g. that of {run.differing[0]!r}"
            )
        if run.bare:
            screen.note(f"{run.name}: {run.bare} passages have no text, so nothing is found there")
        if run.flat:
            screen.note(
                f"{run.name}: {run.flat} rankings have mostly equal scores, which order nothing: "
                "equal ones stand by descending passage id, as trec_eval has them"
            )


def _print(evaluation: "Evaluation", baseline: Path | None, style: str, details: bool) -> None:
    from jpr.evaluation import tables
    from jpr.evaluation.compare import compare

    compared = compare(evaluation, str(baseline)) if baseline else []
    if style == "json":
        screen.say_json(tables.as_json(evaluation, compared))
        return
    draw = {"markdown": tables.markdown, "latex": tables.latex}.get(style)
    both = [(tables.HEADER, tables.rows(evaluation))]
    if compared:
        both.append((tables.COMPARED, tables.compared_rows(evaluation, compared)))
    for header, rows in both:
        if draw:
            screen.say(draw(header, rows))
        else:
            screen.table(header, rows)
        screen.say("")
    if details:
        _print_details(evaluation, compared)


def _print_details(evaluation: "Evaluation", compared: "list[Comparison]") -> None:
    texts = {question.id: question.text for question in evaluation.questions}
    for comparison in compared:
        if comparison.slice == "all":
            screen.say(f"{comparison.run} against {comparison.baseline}, {comparison.measure}:")
            for sign, ids in (("+", comparison.wins), ("-", comparison.losses)):
                for id in ids:
                    screen.say(f"  {sign} {id}  {texts[id]}")


def _draw(evaluation: "Evaluation", folder: Path | None, kind: str) -> None:
    if folder is None:
        return
    from jpr.evaluation.plots import has_curve, main_measure, plot_by_answers, plot_curve

    plot_by_answers(evaluation, main_measure(evaluation), folder / f"by-answers.{kind}")
    if has_curve(evaluation):
        plot_curve(evaluation, folder / f"curve.{kind}")
    screen.note(f"pictures are in {folder}")
