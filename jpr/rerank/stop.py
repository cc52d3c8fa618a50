"""When to stop choosing: a threshold on what passages are worth, found on questions with answers.

A search that stops before the first expansion below the threshold gives each question as many
passages as it is worth: `k="auto"`. The threshold is the highest, that is, the one with the fewest
passages, that keeps a wanted share of the answers found without any. What an expansion is worth is
how likely its passage adds the next answer, or, of a model that does not read answers, its score.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from jpr.decode import Decoded
from jpr.errors import ConfigError, DataError, FormatError
from jpr.io.checksums import read_record, sealed, unsealed
from jpr.io.json_files import read_object

if TYPE_CHECKING:
    from jpr.coverage import Coverage


@dataclass(frozen=True, slots=True)
class Stop:
    """Where a model's searches stop, and on what it was found."""

    threshold: float
    most: int
    """Passages at most."""
    decoder: str
    beta: float
    """The search for which it holds."""
    kept: float
    """The share of answers that it kept."""
    passages: float
    """How many passages a question had on average."""
    questions: int


def calibrated(
    trees: Sequence[Decoded], worths: Sequence[Sequence[float]], coverage: "Coverage", keep: float
) -> tuple[float, float, float]:
    """Return the threshold, the share of answers it keeps, and the passages per question.

    The trees were grown without a threshold, from the candidates of `coverage`; `worths` are those
    of their nodes.
    """
    if not 0 < keep <= 1:
        raise ConfigError(f"keep {keep}; give a share above 0 and up to 1")
    lows, gains, news = [], [], []
    for question, tree in enumerate(trees):
        covers, seen, low = coverage.covers(question), set[int](), np.inf
        for node, worth in zip(tree.nodes, worths[question], strict=True):
            low = min(low, worth)
            lows.append(low)
            gains.append(len(covers[node.passage] - seen))
            news.append(node.is_new)
            seen |= covers[node.passage]
    if not sum(gains):
        raise DataError("no answer is in any chosen passage: nothing to find a threshold by")
    order = np.argsort(-np.array(lows), kind="stable")
    found = np.cumsum(np.array(gains)[order])
    last = int(np.searchsorted(found, keep * found[-1] - 1e-9))
    threshold = float(np.array(lows)[order][last])
    there = np.array(lows) >= threshold
    kept = float(np.array(gains)[there].sum() / found[-1])
    return threshold, kept, float(np.array(news)[there].sum() / len(trees))


def read_stop(folder: Path) -> Stop | None:
    """Read where a model's searches stop, if it was calibrated."""
    about = read_record(folder / "joint.json").get("stop")
    if about is None:
        return None
    try:
        if not isinstance(about, dict):
            raise TypeError("it is no object")
        stop = Stop(**about)
        numbers = (stop.threshold, stop.most, stop.beta)
        if not all(isinstance(number, int | float) and isfinite(number) for number in numbers):
            raise TypeError(f"threshold, most and beta are {numbers}")
        return stop
    except TypeError as error:
        raise FormatError(folder / "joint.json", 0, f"its stop is not known: {error}") from error


def write_stop(folder: Path, stop: Stop) -> None:
    """Note in a model's folder where its searches stop."""
    from jpr.io.atomic import publish  # not needed, nor to be had, where models are trained

    file = folder / "joint.json"
    about = {**unsealed(file, read_object(file)), "stop": asdict(stop)}
    with publish(file) as stream:
        stream.write(json.dumps(sealed(about), indent=1) + "\n")
