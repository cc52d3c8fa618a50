"""Score the bundled joint model: on a GPU, and as users run it on a CPU.

Needs: the questions; the first stage's rankings, 100 each with texts (`--runs` of
recipes/first_stage.py); the places that `inside` (the bundled model) chose on a GPU in 16 bits,
written by recipes/reader_models.py. On the CPU, in 8 bits, some questions of the first set are
reranked, evenly spaced: some seconds each; a run that was stopped resumes.

    python -m recipes.joint_default questions runs places --work reranked

Writes `joint-default.jsonl` to `results/`, with seconds and agreement in its manifest.
"""

import json
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from jpr import JointReranker, evaluate, load_rankings
from jpr.batch import rerank_to_file
from jpr.evaluation.compare import compare
from jpr.io.manifest import manifest
from jpr.types import Ranking
from recipes.command_line import results_parser
from recipes.joint_table import MEASURES, SHOWN
from recipes.joint_table import records as records_of
from recipes.rankings import Clock, evenly_spaced, first_stage, input_files, select
from recipes.reader_models import NOWHERE, K, Places
from recipes.report import FIRST_STAGE as FIRST
from recipes.report import Record, comparison_row, save_records

EIGHT, SIXTEEN = "joint, 8 bits", "joint, 16 bits"
NAME = "joint-default"
DATA = ("webquestions_dev", "ambignq_dev", "webqsp_test")
ABOUT = (
    "The bundled joint model (`recipes/joint/random_negatives.toml`, with the first-stage "
    "rank as a prior, 0.3): its 8-bit weights in 16-bit arithmetic on a GPU, and for some "
    "questions, evenly spaced, as users run it: in 8 bits on the CPU."
)


def same(one: Sequence[Ranking], other: Sequence[Ranking]) -> dict[str, float]:
    """Return the shares of questions with the same first passage, and with the same five."""
    ids = [[[hit.passage.id for hit in r.hits[:5]] for r in run] for run in (one, other)]
    pairs = list(zip(*ids, strict=True))
    return {
        "first": sum(a[:1] == b[:1] for a, b in pairs) / len(pairs),
        "five": sum(set(a) == set(b) for a, b in pairs) / len(pairs),
    }


def placed(rankings: Sequence[Ranking], places: Places) -> list[Ranking]:
    """Return the passages at these places; 255 stands for none."""
    return select(rankings, [row[row < NOWHERE][:K].tolist() for row in places])


def main() -> None:
    """Rerank, score, record."""
    parser = results_parser(__doc__, "questions", "runs", "places")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--data", nargs="*", default=list(DATA))
    parser.add_argument("--some", type=int, default=200, help="how many on the CPU")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    start, clock = time.perf_counter(), Clock()
    records: list[Record] = []
    tests, agreement = [], {}
    for data in options.data:
        questions, rankings = first_stage(options, data)
        places: Places = np.load(options.places / f"inside-{data}.npy")
        runs = {FIRST: rankings, SIXTEEN: placed(rankings, places)}
        scored = evaluate(questions, runs, MEASURES, pool=rankings, workers=2)
        tests += [comparison_row(data, one) for one in compare(scored, FIRST)]
        records += records_of(scored, NAME, data)
        if data == options.data[0]:
            some = evenly_spaced(rankings, options.some)
            own = np.array(evenly_spaced(list(places), options.some))
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
            **input_files(options, options.data),
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
