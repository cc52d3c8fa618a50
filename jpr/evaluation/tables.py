"""An evaluation as text: rows, Markdown, LaTeX, JSON."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import PurePath

import numpy as np

from jpr.evaluation.answers import AnswerMeasure
from jpr.evaluation.compare import Comparison
from jpr.evaluation.evaluation import ALL, MULTI, Evaluation, RunScores, Score
from jpr.evaluation.measures import Measure

HEADER = ("run", "measure", "all", "95 % interval", "n", "multi", "n multi", "oracle")
COMPARED = (
    "run", "measure", "slice", "n", "difference", "95 % interval", "won", "lost", "p", "p Holm",
)  # fmt: skip


_LATEX = str.maketrans(
    {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "–": "--"}
    | {character: "\\" + character for character in "&%$#_{}"}
)


def short_names(evaluation: Evaluation) -> dict[str, str]:
    """Return short names of the runs: file names without extension, with folders if needed."""
    paths = {run.name: PurePath(run.name) for run in evaluation.runs}
    short = {name: path.name.split(".")[0] or path.name for name, path in paths.items()}
    for n in range(1, 1 + max((len(path.parts) for path in paths.values()), default=0)):
        if len(set(short.values())) == len(short):
            return short
        short = {name: str(PurePath(*path.parts[-n:])) for name, path in paths.items()}
    return short


def rows(evaluation: Evaluation) -> list[tuple[str, ...]]:
    """Return a row of text per run and measure; "oracle" is the score of the oracle ordering."""
    names = short_names(evaluation)
    return [
        (
            names[run.name],
            repr(measure),
            _percent(overall.value),
            f"{_percent(overall.low)} to {_percent(overall.high)}",
            str(overall.n),
            _percent(multi.value),
            str(multi.n),
            _oracle(run, i),
        )
        for run in evaluation.runs
        for i, (measure, overall, multi) in enumerate(_scores(evaluation, run))
    ]


def _scores(
    evaluation: Evaluation, run: RunScores
) -> Iterable[tuple[Measure | AnswerMeasure, Score, Score]]:
    """Return the measures, each with its score over all and over multi-answer questions."""
    overall, multi = evaluation.scores(run, ALL), evaluation.scores(run, MULTI)
    return zip(evaluation.measures, overall, multi, strict=True)


def compared_rows(
    evaluation: Evaluation, comparisons: Sequence[Comparison]
) -> list[tuple[str, ...]]:
    """Return a row of text per comparison."""
    names = short_names(evaluation)
    return [
        (
            f"{names[c.run]} – {names[c.baseline]}",
            c.measure,
            c.slice,
            str(c.n),
            f"{100 * c.difference:+.1f}",
            f"{100 * c.low:+.1f} to {100 * c.high:+.1f}",
            str(len(c.wins)),
            str(len(c.losses)),
            _p(c.p),
            _p(c.p_holm),
        )
        for c in comparisons
    ]


def _p(value: float) -> str:
    return f"{value:.4f}" if value >= 0.0001 else "<0.0001"


def _percent(value: float) -> str:
    return "–" if np.isnan(value) else f"{100 * value:.1f}"


def _oracle(run: RunScores, i: int) -> str:
    if run.oracle is None:
        return ""
    value, bound = run.oracle.values[:, i].mean(), run.oracle.bounds[:, i].mean()
    return _percent(value) if bound == value else f"{_percent(value)} to {_percent(bound)}"


def as_text(
    evaluation: Evaluation,
    comparisons: Sequence[Comparison],
    table: Callable[[Sequence[str], Sequence[Sequence[str]]], str],
) -> str:
    """Return the scores and, if there are any, the comparisons as tables."""
    shown = [table(HEADER, rows(evaluation))]
    if comparisons:
        shown.append(table(COMPARED, compared_rows(evaluation, comparisons)))
    return "\n\n".join(shown)


def markdown(header: Sequence[str], table: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table.

    >>> print(markdown(["run", "all"], [["a|b", "50.0"]]))
    | run | all |
    | --- | --- |
    | a\\|b | 50.0 |
    """
    lines = [list(header), ["---"] * len(header), *map(list, table)]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines
    )


def latex(header: Sequence[str], table: Sequence[Sequence[str]]) -> str:
    """Return a LaTeX tabular in booktabs style."""
    columns = "ll" + "r" * (len(header) - 2)
    head, *lines = (
        " & ".join(cell.translate(_LATEX) for cell in row) + r" \\" for row in (header, *table)
    )
    lines = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", head, r"\midrule", *lines]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def as_json(evaluation: Evaluation, comparisons: Sequence[Comparison] = ()) -> dict[str, object]:
    """Return everything as one JSON object; values are percentages in full precision."""
    result: dict[str, object] = {
        "runs": [_run_json(evaluation, run) for run in evaluation.runs],
        "without_answers": list(evaluation.without_answers),
    }
    if comparisons:
        result["comparisons"] = [
            asdict(one) | {name: 100 * getattr(one, name) for name in ("difference", "low", "high")}
            for one in comparisons
        ]
    return result


def _run_json(evaluation: Evaluation, run: RunScores) -> dict[str, object]:
    return {
        "run": run.name,
        "n": len(evaluation.questions),
        "n_multi": int(evaluation.multi.sum()),
        "missing": list(run.missing),
        "unknown": list(run.unknown),
        "flat": run.flat,
        "bare": run.bare,
        "measures": {
            repr(measure): {
                "all": _number(overall.value),
                "multi": _number(multi.value),
                "low": _number(overall.low),
                "high": _number(overall.high),
                "multi_low": _number(multi.low),
                "multi_high": _number(multi.high),
                **_details_json(evaluation, run, i),
            }
            for i, (measure, overall, multi) in enumerate(_scores(evaluation, run))
        },
    }


def _number(value: float) -> float | None:
    """Return a percentage; None if no question has a value."""
    return None if np.isnan(value) else 100 * value


def _details_json(evaluation: Evaluation, run: RunScores, i: int) -> dict[str, object]:
    """Return a measure's means by the number of answers, and those of the oracle ordering."""
    n_answers, values = evaluation.n_answers, run.values[:, i]
    groups = {str(n): values[n_answers == n] for n in np.unique(n_answers)}
    details: dict[str, object] = {
        "by_answers": {
            n: {"n": len(group), "value": 100 * float(group.mean())} for n, group in groups.items()
        }
    }
    if run.oracle is not None:
        best, greedy, bounds = (scores[:, i] for scores in run.oracle)
        details |= {
            "best_order": 100 * float(best.mean()),
            "best_order_greedy": 100 * float(greedy.mean()),
            "best_order_bound": 100 * float(bounds.mean()),
            "best_order_unproven": int((bounds > best).sum()),
        }
    return details
