"""Two pictures of an evaluation: by number of answers, and as k grows.

Needs the `plot` extra. A path's ending decides what is written: .svg, .png, .pdf.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from jpr.errors import ConfigError, MissingExtraError
from jpr.evaluation.evaluation import Evaluation
from jpr.evaluation.measures import Measure, MRecall
from jpr.evaluation.tables import short_names
from jpr.io.atomic import publish_binary

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST = 5
"""Questions with this many answers or more share a bar."""
_ROOM = 75
"""Characters of a legend that fit side by side."""


PICTURES = ("svg", "png", "pdf")


def check_matplotlib() -> None:
    """Raise MissingExtraError, before anything is computed, if matplotlib is not installed."""
    _figure()


def main_measure(evaluation: Evaluation) -> str:
    """Return the measure to draw by the number of answers: the first MRecall, if there is one."""
    names = [repr(measure) for measure in evaluation.measures]
    return next((name for name in names if name.startswith(MRecall.name)), names[0])


def has_curve(evaluation: Evaluation) -> bool:
    """Tell whether there is anything for `plot_curve` to draw."""
    return bool(_curve_columns(evaluation))


def curve_measures(longest: int, upto: int = 20) -> list[Measure]:
    """Return the measures that `plot_curve` draws, for rankings of the given length."""
    return [MRecall @ k for k in range(1, max(1, min(longest, upto)) + 1)]


def plot_by_answers(evaluation: Evaluation, measure: str, path: Path) -> None:
    """Draw each run's score by the number of answers, and the share of such questions.

    This is the figure of the paper's appendix ("Gains with respect to the number of answers").
    """
    figure, axes = _figure()
    column = _column(evaluation, measure)
    counts = np.minimum(evaluation.n_answers, _MOST)
    groups = [n for n in range(1, _MOST + 1) if (counts == n).any()]
    names = _labels(evaluation)
    width = 0.8 / len(evaluation.runs)
    for i, run in enumerate(evaluation.runs):
        means = [100 * run.values[counts == n, column].mean() for n in groups]
        places = np.arange(len(groups)) + (i - (len(evaluation.runs) - 1) / 2) * width
        axes.bar(places, means, width, label=names[run.name])
    axes.set_xticks(range(len(groups)), [f"{n}+" if n == _MOST else str(n) for n in groups])
    axes.set_xlabel("number of distinct answers")
    axes.set_ylabel(f"{measure} (%)")
    share = axes.twinx()
    share.plot(
        range(len(groups)), [100 * (counts == n).mean() for n in groups], "k.--", label="questions"
    )
    share.set_ylabel("share of questions (%)")
    share.set_ylim(0, 100)
    _legend(figure)
    _save(figure, path)


def plot_curve(evaluation: Evaluation, path: Path) -> None:
    """Draw each run's MRecall@k as k grows, dashed what the best order of its passages reaches."""
    figure, axes = _figure()
    columns = _curve_columns(evaluation)
    names = _labels(evaluation)
    for run in evaluation.runs:
        (line,) = axes.plot(*_points(columns, run.values), marker=".", label=names[run.name])
        if run.best:
            axes.plot(*_points(columns, run.best.values), "--", color=line.get_color())
    axes.plot([], [], "k--", label="best order of the same passages")
    axes.set_xlabel("k")
    axes.set_ylabel("MRecall@k (%)")
    _legend(figure)
    _save(figure, path)


def _curve_columns(evaluation: Evaluation) -> list[tuple[int, int]]:
    return sorted(
        (measure.k, i)
        for i, measure in enumerate(evaluation.measures)
        if isinstance(measure, Measure) and measure.name == MRecall.name
    )


def _points(
    columns: Sequence[tuple[int, int]], values: "np.typing.NDArray[np.float64]"
) -> tuple[list[int], list[float]]:
    return [k for k, _ in columns], [100 * float(values[:, i].mean()) for _, i in columns]


def _column(evaluation: Evaluation, measure: str) -> int:
    names = [repr(known) for known in evaluation.measures]
    if measure not in names:
        raise ConfigError(f"{measure} was not computed; there are: {', '.join(names)}")
    return names.index(measure)


def plot_training(log: Sequence[Mapping[str, object]], path: Path) -> None:
    """Draw the lines of a training's log: the loss, and scores on development data, by step."""
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
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("drawing", "plot") from error
    figure = Figure(figsize=(6.4, 4), layout="constrained")
    return figure, figure.subplots()


def _labels(evaluation: Evaluation) -> dict[str, str]:
    """Return what the legend calls each run: of a long name the end, which tells files apart."""
    return {run: _label(name) for run, name in short_names(evaluation).items()}


def _label(name: str) -> str:
    most = _ROOM - 10
    fitting = name if len(name) <= most else "…" + name[1 - most :]
    literal = fitting.replace("$", r"\$")  # dollars would enclose a formula
    return f" {literal}" if literal.startswith("_") else literal  # else it would be left out


def _legend(figure: "Figure") -> None:
    """Put the names above the picture, as many side by side as it has room for."""
    handles, labels = [], []
    for axes in figure.axes:
        of_axes = axes.get_legend_handles_labels()
        handles += of_axes[0]
        labels += of_axes[1]
    columns = max(1, _ROOM // (max(map(len, labels)) + 7))  # 7: the line or box and the gaps
    figure.legend(handles, labels, loc="outside upper center", ncols=columns)


def _save(figure: "Figure", path: Path) -> None:
    kind = path.suffix.removeprefix(".").lower()
    if kind not in PICTURES:
        raise ConfigError(f"{path}: a picture's name should end in .svg, .png or .pdf")
    from matplotlib import rc_context

    # Without a date and with a fixed salt the same evaluation gives the same file.
    with rc_context({"svg.hashsalt": "jpr"}), publish_binary(path) as stream:
        figure.savefig(stream, format=kind, metadata={"Date": None} if kind == "svg" else None)
