"""A picture of how training went: the loss, and the scores on development data, by step."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from jpr.errors import MissingExtraError
from jpr.files import publish_binary


def plot_training(log: Sequence[Mapping[str, object]], path: Path) -> None:
    """Draw the lines of a log as SVG; needs the `plot` extra."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("drawing", "plot") from error
    figure = Figure(figsize=(6.4, 4), layout="constrained")
    axes = figure.subplots()
    axes.plot(*_points(log, "loss"), color="0.6", label="loss")
    axes.set_xlabel("step")
    axes.set_ylabel("loss")
    scores = axes.twinx()
    scores.set_ylabel("MRecall (%)")
    for name in dict.fromkeys(name for line in log for name in line if name.endswith(" all")):
        steps, values = _points(log, name)
        scores.plot(steps, [100 * value for value in values], marker=".", label=name[:-4])
    figure.legend(loc="outside upper center", ncols=2)
    # Without a date and with a fixed salt the same log gives the same file.
    with rc_context({"svg.hashsalt": "jpr"}), publish_binary(path) as stream:
        figure.savefig(stream, format="svg", metadata={"Date": None})


def _points(log: Sequence[Mapping[str, object]], name: str) -> tuple[list[int], list[float]]:
    found = [(int(str(line["step"])), float(str(line[name]))) for line in log if name in line]
    return [step for step, _ in found], [value for _, value in found]
