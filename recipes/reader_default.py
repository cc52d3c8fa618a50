"""Score the bundled reader as users run it: in 8 bits, on the CPU.

Needs: the questions; the first stage's rankings, 100 each with texts (`--runs` of
recipes/first_stage.py). Some questions are read, evenly spaced: some seconds each; a run that was
stopped resumes.

    python -m recipes.reader_default questions runs --work read

Systems: `first ten` and `first five` read the first stage's first passages and nothing else;
`chosen five` chooses five of the 100 candidates jointly, and gives those answers of all candidates
that the five contain, in one pass. Writes `reader-default.jsonl` to `results/`.
"""

import json
import time
from collections.abc import Callable
from pathlib import Path

from jpr import (
    EM,
    AnswerF1,
    JointReranker,
    SpanReader,
    evaluate_answers,
    load_predictions,
)
from jpr.batch import read_to_file
from jpr.evaluation.compare import compare
from jpr.evaluation.evaluation import ALL, MULTI
from jpr.io.manifest import commit, manifest
from jpr.stages import KeyedReader
from jpr.types import Ranking
from recipes.command_line import results_parser
from recipes.rankings import Clock, evenly_spaced, first_stage, input_files
from recipes.report import Record, comparison_row, records_of, save_records

ABOUT = (
    "The bundled reader, in 8 bits on the CPU. `first five` and `first ten` "
    "read those passages of the first stage alone; `chosen five` chooses five of the 100 "
    "candidates jointly and gives the answers of all candidates that the five contain."
)
FIRST = "first five"
SHOWN = [["AnswerF1", "own", slice] for slice in (ALL, MULTI)]


def main() -> None:
    """Read, score, record."""
    parser = results_parser(__doc__, "questions", "runs")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--data", nargs="*", default=["webquestions_dev"])
    parser.add_argument("--some", type=int, default=300, help="how many questions")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    start, joint = time.perf_counter(), JointReranker.load(device="cpu")
    spans = SpanReader(joint)
    systems: dict[str, tuple[KeyedReader, Callable[[Ranking], Ranking]]] = {
        FIRST: (spans, lambda ranking: ranking.top(5)),
        "first ten": (spans, lambda ranking: ranking.top(10)),
        "chosen five": (SpanReader(joint, choose=5), lambda ranking: ranking),
    }
    records: list[Record] = []
    tests, seconds = [], {}
    for data in options.data:
        questions, run = first_stage(options, data)
        rankings = evenly_spaced(run, options.some)
        read = {ranking.question.id for ranking in rankings}
        questions = [question for question in questions if question.id in read]
        given = {}
        for name, (reader, cut) in systems.items():
            file, clock = options.work / f"{data}-{name.replace(' ', '-')}.jsonl", Clock()
            read_to_file(reader, [cut(ranking) for ranking in rankings], file, clock)
            given[name] = load_predictions(file)
            seconds[f"{name}, {data}"] = clock.median
        scored = evaluate_answers(questions, given, [AnswerF1, EM])
        records += records_of(scored, "reader-default", data, commit())
        tests += [comparison_row(data, one) for one in compare(scored, FIRST)]
    depends = manifest(
        "python -m recipes.reader_default questions runs --work read",
        input_files(options, options.data),
        time.perf_counter() - start,
        packages=("onnxruntime",),
    )
    about = {"about": ABOUT, **depends, "median seconds": seconds, "tests": tests, "shown": SHOWN}
    save_records(options.results, "reader-default", records, about)
    print(json.dumps(seconds))


if __name__ == "__main__":
    main()
