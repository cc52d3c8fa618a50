"""How many candidates, and which: what a perfect reranker of them would reach.

Needs: the indexes and files of `recipes.fusion`. A quarter of an hour on two cores.

    python -m recipes.candidates DOMAINS --work WORK --questions QUESTIONS

Systems: the first n candidates of hybrid search; 100 without near-duplicates; and 100 of which some
are the passages before and after the first 10 or 20 in their documents. Writes
`results/candidates.jsonl`, and the curve over n as `results/candidates.svg`.
"""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from jpr import MRecall, evaluate, load_encoder
from jpr.evaluation.compare import compare
from jpr.evaluation.evaluation import ALL, Evaluation, RunScores
from jpr.io.atomic import publish_path
from jpr.io.manifest import commit, manifest
from jpr.retrieve.duplicates import DistinctRetriever
from jpr.retrieve.index import Index
from jpr.retrieve.retrievers import HybridRetriever
from jpr.types import Hit, Question, Ranking
from recipes.command_line import results_parser
from recipes.fusion import question_sets
from recipes.report import Record, comparison_row, records_of, save_records

NAME = "candidates"
COUNTS = (5, 10, 20, 50, 100, 200, 300)
USUAL = "first 100"
MEASURES = [MRecall @ 5]
SHOWN = [["MRecall@5", "best", ALL]]
ABOUT = (
    "MRecall@5 of the oracle ordering of different candidates, on development sets: the first n of "
    "hybrid search; 100 without near-duplicates; 100 with the neighbors (the passages before and "
    "after, in the same document) of the first 10 or 20 in place of the last ones. Domains "
    "without titles have no documents of several passages. The Wikipedia sets are those of "
    "`fusion`. Tests are of the oracle ordering, against the first 100."
)


def with_neighbors(index: Index, ranking: Ranking, rows: Mapping[str, int], top: int) -> Ranking:
    """Replace the last of 100 candidates by the neighbors of the first `top`."""
    hits = {hit.passage.id: hit for hit in ranking.hits[:100]}
    added: dict[str, Hit] = {}
    for hit in ranking.hits[:top]:
        row = rows[hit.passage.id]
        for near in (row + 1, row - 1):
            if hit.passage.title and 0 <= near < index.store.end:
                passage = index.store[near]
                if passage.title == hit.passage.title and passage.id not in hits:
                    added[passage.id] = Hit(passage, 0.0)
    kept = list(hits.values())[: 100 - len(added)]
    return Ranking(ranking.question, (*kept, *added.values()))


def systems(
    index: Index, retriever: HybridRetriever, questions: Sequence[Question]
) -> dict[str, list[Ranking]]:
    """Return the candidates of every kind."""
    found = list(retriever.retrieve_many(questions, max(COUNTS)))
    ids = {hit.passage.id for ranking in found for hit in ranking.hits}
    rows = {id: row for id in ids if (row := index.store.row_of(id)) is not None}
    runs = {f"first {n}": [ranking.top(n) for ranking in found] for n in COUNTS}
    runs["100 distinct"] = list(DistinctRetriever(retriever).retrieve_many(questions, 100))
    for top in (10, 20):
        name = f"100 with neighbors of the first {top}"
        runs[name] = [with_neighbors(index, ranking, rows, top) for ranking in found]
    return runs


def of_oracle(scored: Evaluation) -> Evaluation:
    """Return the oracle orderings as the runs."""
    best = [RunScores(run.name, run.oracle.values) for run in scored.runs if run.oracle]
    return Evaluation(
        scored.questions, scored.n_answers, scored.multi, scored.measures, tuple(best)
    )


def draw(curves: Mapping[str, Sequence[float]], path: Path) -> None:
    """Draw oracle MRecall@5 by number of candidates, a line for each set."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.add_subplot()
    for name, values in curves.items():
        axes.plot(COUNTS, values, marker="o", markersize=3, label=name)
    mean = np.mean(list(curves.values()), axis=0)
    axes.plot(COUNTS, mean, color="black", linewidth=2.5, label="mean")
    axes.set(xscale="log", xlabel="candidates", ylabel="MRecall@5 of the oracle ordering")
    axes.set_xticks(COUNTS, [str(n) for n in COUNTS])
    axes.legend(fontsize=7, ncols=2)
    with publish_path(path) as temporary:
        figure.savefig(temporary, format="svg", metadata={"Date": None})


def main() -> None:
    """Retrieve, score, draw, record."""
    parser = results_parser(__doc__, "domains")
    for name in ("work", "questions"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    options = parser.parse_args()
    start, encoder = time.perf_counter(), load_encoder(None)
    records: list[Record] = []
    tests: list[dict[str, object]] = []
    curves: dict[str, list[float]] = {}
    for domain in question_sets(options):
        retriever = HybridRetriever(domain.index, encoder)
        for data, questions in domain.development.items():
            runs = systems(domain.index, retriever, questions)
            scored = evaluate(questions, runs, MEASURES, workers=2)
            records += records_of(scored, NAME, data, commit())
            best = of_oracle(scored)
            tests += [comparison_row(data, found, "best") for found in compare(best, USUAL)]
            curves[data] = [100 * best.scores(best.run(f"first {n}"))[0].value for n in COUNTS]
            print(f"{data}: {time.perf_counter() - start:.0f} s", flush=True)
    draw(curves, options.results / f"{NAME}.svg")
    made = manifest(
        "python -m recipes.candidates DOMAINS --work WORK --questions QUESTIONS",
        {path.name: path for path in sorted(options.domains.glob("*.xz"))},
        time.perf_counter() - start,
        packages=("tantivy", "faiss-cpu", "onnxruntime"),
    )
    about = {"about": ABOUT, **made, "tests": tests, "shown": SHOWN}
    save_records(options.results, NAME, records, about)


if __name__ == "__main__":
    main()
