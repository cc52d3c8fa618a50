"""Scores the joint model that comes with the package: on a GPU, and as users run it on a CPU.

Needs: the questions; the first stage's rankings, 100 each with texts (`--runs` of
recipes/first_stage.py); the places that `inside` chose on a GPU in 16 bits, as
recipes/reader_models.py left them. On the CPU, in 8 bits, some questions of the first set are
reranked, evenly spread: some seconds each; a run that was stopped goes on.

    python -m recipes.joint_default questions runs places --work reranked

It leaves `joint-default.jsonl` in `results/`, with seconds and agreement in its manifest.
"""

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import TypeVar

import numpy as np

from jpr import JointReranker, evaluate, load_questions, load_rankings
from jpr.evaluation.compare import compare
from jpr.io.manifest import manifest
from jpr.rerank.batch import rerank_to_file
from jpr.types import Ranking
from recipes.joint_table import MEASURES, SHOWN, answerable, chosen
from recipes.joint_table import records as records_of
from recipes.reader_models import NOWHERE, K, Places
from recipes.report import FIRST_STAGE as FIRST
from recipes.report import Record, comparison_row, save_records

T = TypeVar("T")
EIGHT, SIXTEEN = "joint, 8 bits", "joint, 16 bits"
NAME = "joint-default"
DATA = ("webquestions_dev", "ambignq_dev", "webqsp_test")
ABOUT = (
    "The bundled joint model (`recipes/joint/random_negatives.toml`, with the first-stage "
    "rank as a prior, 0.3): its 8-bit weights in 16-bit arithmetic on a GPU, and for some "
    "questions, evenly spread, as users run it: in 8 bits on the CPU."
)


def same(one: Sequence[Ranking], other: Sequence[Ranking]) -> dict[str, float]:
    """Return the shares of questions with the same first passage, and with the same five."""
    ids = [[[hit.passage.id for hit in r.hits[:5]] for r in run] for run in (one, other)]
    pairs = list(zip(*ids, strict=True))
    return {
        "first": sum(a[:1] == b[:1] for a, b in pairs) / len(pairs),
        "five": sum(set(a) == set(b) for a, b in pairs) / len(pairs),
    }


class Clock:
    """Seconds for each question of this process."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._last = time.perf_counter()

    @property
    def median(self) -> float | None:
        """The median; None where all was done before."""
        return round(median(self.seconds), 2) if self.seconds else None

    def __call__(self, done: int) -> None:
        """Note that so many more are done; those of an earlier process come all at once."""
        now = time.perf_counter()
        if done == 1:
            self.seconds.append(now - self._last)
            if len(self.seconds) % 50 == 0:
                print(len(self.seconds), round(median(self.seconds), 2), flush=True)
        self._last = now


def spread(given: Sequence[T], n: int) -> list[T]:
    """Return n of these, evenly spread."""
    return [given[at] for at in np.linspace(0, len(given) - 1, min(n, len(given)), dtype=np.int64)]


def placed(rankings: Sequence[Ranking], places: Places) -> list[Ranking]:
    """Return the passages at places, of which those from 255 on are none."""
    return chosen(rankings, [row[row < NOWHERE][:K].tolist() for row in places])


def main() -> None:
    """Rerank, score, record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    for name in ("questions", "runs", "places"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--data", nargs="*", default=list(DATA))
    parser.add_argument("--some", type=int, default=200, help="how many on the CPU")
    parser.add_argument("--results", type=Path, default=Path("results"))
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    start, clock = time.perf_counter(), Clock()
    records: list[Record] = []
    tests, agreement = [], {}
    for data in options.data:
        questions = load_questions(options.questions / f"{data}.jsonl")
        rankings = answerable(questions, load_rankings(options.runs / f"hybrid-{data}.jsonl"))
        places: Places = np.load(options.places / f"inside-{data}.npy")
        runs = {FIRST: rankings, SIXTEEN: placed(rankings, places)}
        scored = evaluate(questions, runs, MEASURES, pool=rankings, workers=2)
        tests += [comparison_row(data, one) for one in compare(scored, FIRST)]
        records += records_of(scored, NAME, data)
        if data == options.data[0]:
            some = spread(rankings, options.some)
            own = np.array(spread(list(places), options.some))
            file = options.work / f"{data}.jsonl"
            rerank_to_file(JointReranker.load(device="cpu"), some, file, K, clock)
            both = {EIGHT: list(load_rankings(file)), SIXTEEN: placed(some, own)}
            fewer = f"{data}, {len(some)} questions"
            ids = {ranking.question.id for ranking in some}
            asked = [question for question in questions if question.id in ids]
            scored = evaluate(asked, both, MEASURES, pool=some, workers=2)
            agreement[data] = {**same(both[EIGHT], both[SIXTEEN]), "n": len(some)}
            tests += [comparison_row(fewer, one) for one in compare(scored, SIXTEEN)]
            records += records_of(scored, NAME, fewer)
    depends = manifest(
        "python -m recipes.joint_default questions runs places --work reranked",
        {
            **{f"{data}.jsonl": options.questions / f"{data}.jsonl" for data in options.data},
            **{f"hybrid-{d}.jsonl": options.runs / f"hybrid-{d}.jsonl" for d in options.data},
            **{f"inside-{d}.npy": options.places / f"inside-{d}.npy" for d in options.data},
        },
        time.perf_counter() - start,
        packages=("onnxruntime",),
    )
    about = {"about": ABOUT, **depends, "agreement": agreement, "median seconds": clock.median}
    about |= {"tests": tests, "shown": SHOWN}
    save_records(options.results, NAME, records, about)
    print(json.dumps({"agreement": agreement, "median seconds": clock.median}))


if __name__ == "__main__":
    main()
