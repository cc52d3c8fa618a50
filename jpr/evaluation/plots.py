"""Plots of evaluations and training logs, as .svg, .png or .pdf; needs the `plot` extra."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from jpr.errors import ConfigError, needs_extra
from jpr.evaluation.evaluation import Evaluation
from jpr.evaluation.measures import Measure, MRecall
from jpr.evaluation.tables import short_names
from jpr.io.atomic import publish_binary

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MAX_ANSWERS = 5  # questions with this many answers or more share a bar
_LEGEND_WIDTH = 75  # characters of a legend that fit on a line


def check_matplotlib() -> None:
    """Raise MissingExtraError, before anything is computed, if matplotlib is not installed."""
    _figure()


def plot_evaluation(evaluation: Evaluation, folder: Path) -> None:
    """Plot the first MRecall, or else the first measure, by answers, and MRecall@k by k."""
    names = [repr(measure) for measure in evaluation.measures]
    measure = next((name for name in names if name.startswith(MRecall.name)), names[0])
    plot_by_answers(evaluation, measure, folder / "by-answers.svg")
    if _curve_columns(evaluation):
        plot_curve(evaluation, folder / "curve.svg")


def curve_measures(longest: int, upto: int = 20) -> list[Measure]:
    """Return the measures that `plot_curve` plots, for rankings of this length."""
    return [MRecall @ k for k in range(1, max(1, min(longest, upto)) + 1)]


def plot_by_answers(evaluation: Evaluation, measure: str, path: Path) -> None:
    """Plot each run's score by the number of answers, and the share of such questions.

    This is the figure of the paper's appendix ("Gains with respect to the number of answers").
    """
    figure, axes = _figure()
    measures = [repr(known) for known in evaluation.measures]
    if measure not in measures:
        raise ConfigError(f"{measure} was not computed; choose one of {', '.join(measures)}")
    column = measures.index(measure)
    counts = np.minimum(evaluation.n_answers, _MAX_ANSWERS)
    groups = [n for n in range(1, _MAX_ANSWERS + 1) if (counts == n).any()]
    names = _labels(evaluation)
    width = 0.8 / len(evaluation.runs)
    for i, run in enumerate(evaluation.runs):
        means = [100 * run.values[counts == n, column].mean() for n in groups]
        places = np.arange(len(groups)) + (i - (len(evaluation.runs) - 1) / 2) * width
        axes.bar(places, means, width, label=names[run.name])
    axes.set_xticks(range(len(groups)), [f"{n}+" if n == _MAX_ANSWERS else str(n) for n in groups])
    axes.set_xlabel("number of distinct answers")
    axes.set_ylabel(f"{measure} (%)")
    share = axes.twinx()
    shares = [100 * (counts == n).mean() for n in groups]
    share.plot(range(len(groups)), shares, "k.--", label="questions")
    share.set_ylabel("share of questions (%)")
    share.set_ylim(0, 100)
    _legend(figure)
    _save(figure, path)


def plot_curve(evaluation: Evaluation, path: Path) -> None:
    """Plot each run's MRecall@k by k, with its oracle ordering dashed."""
    figure, axes = _figure()
    columns = _curve_columns(evaluation)
    cutoffs, at = list(columns), list(columns.values())
    names = _labels(evaluation)
    for run in evaluation.runs:
        means = 100 * run.values[:, at].mean(axis=0)
        (line,) = axes.plot(cutoffs, means, marker=".", label=names[run.name])
        if run.oracle:
            means = 100 * run.oracle.values[:, at].mean(axis=0)
            axes.plot(cutoffs, means, "--", color=line.get_color())
    axes.plot([], [], "k--", label="oracle ordering of the same passages")
    axes.set_xlabel("k")
    axes.set_ylabel("MRecall@k (%)")
    _legend(figure)
    _save(figure, path)


def _curve_columns(evaluation: Evaluation) -> dict[int, int]:
    """Return the column of each MRecall@k by its k, ascending."""
    columns = {
        measure.k: i
        for i, measure in enumerate(evaluation.measures)
        if isinstance(measure, Measure) and measure.name == MRecall.name
    }
    return dict(sorted(columns.items()))


def plot_training(log: Sequence[Mapping[str, object]], path: Path) -> None:
    """Plot the loss and the development scores of a training log by step."""
    figure, axes = _figure()
    axes.plot(*_logged(log, "loss"), color="0.6", label="loss")
    axes.set_xlabel("step")
    axes.set_ylabel("loss")
    scores = axes.twinx()
    scores.set_ylabel("MRecall (%)")
    for name in dict.fromkeys(name for line in log for name in line if name.endswith(" all")):
        steps, values = _logged(log, name)
        scores.plot(steps, [100 * value for value in values], marker=".", label=name[:-4])
    figure.legend(loc="outside upper center", ncols=2)
    _save(figure, path)


def _logged(log: Sequence[Mapping[str, object]], name: str) -> tuple[list[int], list[float]]:
    found = [(int(str(line["step"])), float(str(line[name]))) for line in log if name in line]
    return [step for step, _ in found], [value for _, value in found]


def _figure() -> "tuple[Figure, Axes]":
    with needs_extra("plotting", "plot"):
        from matplotlib.figure import Figure
    figure = Figure(figsize=(6.4, 4), layout="constrained")
    return figure, figure.subplots()


def _labels(evaluation: Evaluation) -> dict[str, str]:
    """Return the name of each run in the legend, long ones shortened at the front."""
    labels, most = short_names(evaluation), _LEGEND_WIDTH - 10
    for run, name in labels.items():
        fitting = name if len(name) <= most else "…" + name[1 - most :]
        literal = fitting.replace("$", r"\$")  # dollars would start a formula
        labels[run] = f" {literal}" if literal.startswith("_") else literal  # _ would hide it
    return labels


def _legend(figure: "Figure") -> None:
    """Put the legend above the plot."""
    labels = [label for axes in figure.axes for label in axes.get_legend_handles_labels()[1]]
    columns = _LEGEND_WIDTH // (max(map(len, labels)) + 7)  # 7: the line or box and the gaps
    figure.legend(loc="outside upper center", ncols=max(1, columns))


def _save(figure: "Figure", path: Path) -> None:
    kind = path.suffix.removeprefix(".").lower()
    if kind not in ("svg", "png", "pdf"):
        raise ConfigError(f"{path}: the name of a plot must end in .svg, .png or .pdf")
    from matplotlib import rc_context

    # Without a date and with a fixed salt the same evaluation gives the same file.
    with rc_context({"svg.hashsalt": "jpr"}), publish_binary(path) as stream:
        figure.savefig(stream, format=kind, metadata={"Date": None} if kind == "svg" else None)
