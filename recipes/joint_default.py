"""Scores the joint model that comes with the package as users run it: in 8 bits, on the CPU.

Needs: the questions; the first stage's rankings, 100 each with texts (`--runs` of
recipes/first_stage.py); for a comparison with the same weights in 16 bits, the choices of
`strangers-0` as recipes/joint_models.py left them. Some seconds a question; a run that was stopped
goes on.

    python recipes/joint_default.py questions runs choices/strangers-0.json --work reranked

It leaves `joint-default.jsonl` in `results/`, with seconds and agreement in its manifest.
"""

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

from joint_table import MEASURES, SHOWN, answerable, chosen

from jpr import JointReranker, evaluate, load_questions, load_rankings
from jpr.judge.compare import compare
from jpr.manifest import commit, manifest
from jpr.report import Record, comparison_row, records_of, save_records
from jpr.rerank.batch import rerank_to_file
from jpr.types import Ranking

K = 10
EIGHT, SIXTEEN = "joint, 8 bits", "joint, 16 bits"
ABOUT = (
    "The joint model that comes with the package, in 8 bits on the CPU and with the first stage's "
    "rank as a prior (0.3), against the weights it was made of, in 16 bits on a GPU and without "
    "one (`recipes/joint/strangers.toml`)."
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


def main() -> None:
    """Rerank, score, record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    for name in ("questions", "runs", "choices"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--data", nargs="*", default=["webquestions_dev"])
    parser.add_argument("--results", type=Path, default=Path("results"))
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    made = json.loads(options.choices.read_text(encoding="utf-8"))["choices"]
    start, reranker = time.perf_counter(), JointReranker.load(device="cpu")
    records: list[Record] = []
    tests, agreement, seconds = [], {}, {}
    for data in options.data:
        questions = load_questions(options.questions / f"{data}.jsonl")
        rankings = answerable(questions, load_rankings(options.runs / f"hybrid-{data}.jsonl"))
        file, clock = options.work / f"{data}.jsonl", Clock()
        rerank_to_file(reranker, rankings, file, K, clock)
        runs = {
            EIGHT: list(load_rankings(file)),
            SIXTEEN: chosen(rankings, made[data]["sequence"]),
        }
        agreement[data] = same(runs[EIGHT], runs[SIXTEEN])
        seconds[data] = clock.median
        scored = evaluate(questions, runs, MEASURES, pool=rankings, workers=2)
        bare = replace(scored, runs=tuple(replace(run, best=None) for run in scored.runs))
        records += records_of(bare, "joint-default", data, commit())
        tests += [comparison_row(data, one) for one in compare(scored, SIXTEEN)]
    depends = manifest(
        "python recipes/joint_default.py questions runs choices/strangers-0.json --work reranked",
        {
            **{f"{data}.jsonl": options.questions / f"{data}.jsonl" for data in options.data},
            **{f"hybrid-{d}.jsonl": options.runs / f"hybrid-{d}.jsonl" for d in options.data},
            options.choices.name: options.choices,
        },
        time.perf_counter() - start,
        packages=("onnxruntime",),
    )
    about = {"about": ABOUT, **depends, "agreement": agreement, "median seconds": seconds}
    about |= {"tests": tests, "shown": SHOWN}
    save_records(options.results, "joint-default", records, about)
    print(json.dumps({"agreement": agreement, "median seconds": seconds}))


if __name__ == "__main__":
    main()
