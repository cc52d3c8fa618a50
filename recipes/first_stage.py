"""Score first stages: 100 candidates per question, for every system tried.

Needs: the index of the passages with vectors (`jpr index passages.tsv.xz --out wiki --vectors …`),
the lists of nearest passages that `recipes/dpr_plus.py` made on a GPU, questions; 15 minutes.

    python -m recipes.first_stage wiki LISTS ambignq_dev.jsonl webqsp_test.jsonl trec_test.jsonl ...

Writes `results/first-stage.jsonl`, with paired tests in the manifest, and with `--runs FOLDER` the
runs of the default retriever.
"""

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from jpr import MRecall, Recall, evaluate, load_questions, write_rankings
from jpr.evaluation.compare import compare
from jpr.evaluation.evaluation import Evaluation, RunScores
from jpr.io.atomic import publish
from jpr.io.manifest import commit, manifest
from jpr.retrieve.index import Index
from jpr.retrieve.rank_fusion import ReciprocalRanks, Scored, ScoreMix
from jpr.retrieve.retrievers import DEPTH, open_retriever
from jpr.types import Hit, Question, Ranking
from recipes.command_line import results_parser
from recipes.report import Record, comparison_row, records_of, save_records

NAME = "first-stage"
K = 100
MEASURES = [Recall @ 5, Recall @ 100, MRecall @ 5, MRecall @ 10]
RANKS, SCORES = ReciprocalRanks((0.4, 0.6)), ScoreMix((0.3, 0.7))
ENCODERS = {
    "minilm": "MiniLM-L6",
    "gte": "gte-small",
    "e5": "e5-small",
    "full": "e5-small, full negatives",
    "teacher": "e5-small, distant negatives",
    "student": "MiniLM-L6, distant negatives, taught by it",
}
ABOUT = (
    "100 candidates per question from 1,222,650 passages. BM25 is that of `jpr index` (tantivy). "
    "Encoders search exactly, in 16 bits; the first three as they come, the others trained by "
    "`recipes/dpr_plus.py`. Fusions are of BM25 and the last encoder, 300 deep. The last system "
    "is `jpr retrieve` with its defaults over an index whose passages were encoded on the GPU: "
    "questions by the same encoder in 8 bits, vectors in 8 bits in an IVF index. Encoder and "
    "fusion were chosen on AmbigNQ dev and WebQuestions dev; the other two sets were not used. "
    "MRecall of the oracle ordering is what a perfect reranker of the 100 would reach."
)


def ranking(index: Index, question: Question, hits: Scored) -> Ranking:
    """Replace rows by passages."""
    return Ranking(question, tuple(Hit(index.store[row], score) for row, score in hits[:K]))


def systems(
    index: Index, folder: Path, lists: Path, questions: Sequence[Question], data: str
) -> Iterator[tuple[str, list[Ranking]]]:
    """Yield every system's name and rankings."""

    def made(found: Sequence[Scored]) -> list[Ranking]:
        return [ranking(index, q, hits) for q, hits in zip(questions, found, strict=True)]

    words = [index.search_bm25(question.text, DEPTH) for question in questions]
    yield "BM25", made(words)
    near: list[Scored] = []
    for name, label in ENCODERS.items():
        arrays = np.load(lists / f"{name}.npz")
        rows, scores = arrays[f"{data}.rows"].tolist(), arrays[f"{data}.scores"].tolist()
        near = [list(zip(r, s, strict=True)) for r, s in zip(rows, scores, strict=True)]
        yield label, made(near)
    pairs = list(zip(words, near, strict=True))
    yield "BM25 + the last, ranks 0.4 : 0.6", made([RANKS(pair) for pair in pairs])
    yield "BM25 + the last, scores 0.3 : 0.7", made([SCORES(pair) for pair in pairs])
    yield "jpr, hybrid as installed", list(open_retriever(folder).retrieve_many(questions, K))


def against_bm25(scored: Evaluation, data: str) -> list[dict[str, object]]:
    """Test every system against BM25: as they rank, and in oracle order."""
    best = tuple(RunScores(run.name, run.oracle.values) for run in scored.runs if run.oracle)
    rows = []
    for order, evaluation in (("own", scored), ("best", replace(scored, runs=best))):
        rows += [comparison_row(data, found, order) for found in compare(evaluation, "BM25")]
    return rows


def main() -> None:
    """Retrieve, score, record."""
    parser = results_parser(__doc__, "index", "lists")
    parser.add_argument("questions", type=Path, nargs="+")
    parser.add_argument("--runs", type=Path)
    options = parser.parse_args()
    start = time.perf_counter()
    index = Index(options.index)
    records: list[Record] = []
    tests: list[dict[str, object]] = []
    for path in options.questions:
        questions = load_questions(path)
        runs = dict(systems(index, options.index, options.lists, questions, path.stem))
        scored = evaluate(questions, runs, MEASURES, workers=2)
        records += records_of(scored, NAME, path.stem, commit())
        tests += against_bm25(scored, path.stem)
        if options.runs:
            with publish(options.runs / f"hybrid-{path.stem}.jsonl") as stream:
                write_rankings(list(runs.values())[-1], stream)
        print(f"{path.stem}: {time.perf_counter() - start:.0f} s", flush=True)
    inputs = {path.name: path for path in options.questions}
    inputs |= {path.name: path for path in sorted(options.lists.glob("*.npz"))}
    command = (
        f"python -m recipes.first_stage wiki LISTS {' '.join(p.name for p in options.questions)}"
    )
    made = manifest(
        command, inputs, time.perf_counter() - start,
        packages=("tantivy", "faiss-cpu", "onnxruntime"),
    )  # fmt: skip
    trained = [json.loads(p.read_text()) for p in sorted(options.lists.glob("manifest*.json"))]
    extra = {"index": index.key, "trained": trained, "tests": tests}
    save_records(options.results, NAME, records, {"about": ABOUT, **made, **extra})


if __name__ == "__main__":
    main()
