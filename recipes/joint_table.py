"""Scores what the joint rerankers chose: the paper's retrieval table, and the ablations.

Needs: the questions; the first stage's rankings, 100 each with texts (`--runs` of
recipes/first_stage.py); `choices/`, as recipes/joint_models.py left it; and, for MMR, the index and
its vectors as encoded.

    python recipes/joint_table.py questions runs choices --index wiki --vectors vectors

It leaves `joint.jsonl`, `joint-ablation.jsonl` and `joint-decoding.jsonl` in `results/`, with
paired tests in manifests, and figures by the number of answers.
"""

import argparse
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jpr import MRecall, alpha_nDCG, evaluate, load_encoder, load_questions, load_rankings
from jpr.corpus.store import PassageStore
from jpr.encode.vectors import open_vectors
from jpr.errors import DataError
from jpr.judge.compare import compare
from jpr.judge.evaluation import Evaluation
from jpr.judge.plots import plot_by_answers
from jpr.manifest import commit, manifest
from jpr.report import Record, comparison_row, records_of, save_records
from jpr.rerank.diversify import DiverseReranker
from jpr.rerank.order import ranked
from jpr.retrieve.index import Index
from jpr.stages import Encoder
from jpr.train.sources import has_answers
from jpr.types import Passage, Question, Ranking

DATA = ("ambignq_dev", "webqsp_test", "webquestions_dev", "trec_test")
MEASURES = [MRecall @ 5, MRecall @ 10, alpha_nDCG(0.9) @ 5, alpha_nDCG(0.9) @ 10]
OF_FIVE = [measure for measure in MEASURES if measure.k == 5]  # the sweep chooses five passages
NAMES = ("joint", "joint-ablation", "joint-decoding")
FIRST, ORACLE, MMR = "first-stage", "oracle", "MMR"
TABLE = {
    "pointwise": ("pointwise-0", "independent"),
    "independent": ("independent-0", "independent"),
    "joint": ("joint-0", "sequence"),
    "independent, seed 1": ("independent-1", "independent"),
    "independent, seed 2": ("independent-2", "independent"),
    "joint, seed 1": ("joint-1", "sequence"),
    "joint, seed 2": ("joint-2", "sequence"),
}
ABLATION = {
    "joint": ("joint-0", "sequence"),
    "no negatives in prefixes": ("no_negatives-0", "sequence"),
    "teacher forcing": ("teacher_forcing-0", "sequence"),
    "targets as printed": ("printed-0", "sequence"),
    "independent, chosen for answers": ("independent-0", "sequence"),
    "stage 1 alone, chosen for answers": ("first", "sequence"),
    "joint, passages alone": ("joint-0", "sequence, passages alone"),
    "no negatives, passages alone": ("no_negatives-0", "sequence, passages alone"),
    "teacher forcing, passages alone": ("teacher_forcing-0", "sequence, passages alone"),
    "targets as printed, passages alone": ("printed-0", "sequence, passages alone"),
    "joint, first step": ("joint-0", "independent"),
    "stage 1 alone": ("first", "independent"),
}
ABOUT = (
    "The 100 candidates are those of `jpr retrieve` as installed. All rerankers have the same "
    "encoder (e5-small, 12 layers of 384), the same stage 1 (`recipes/joint/first.toml`), the same "
    "questions and the same budget in stage 2; seeds are of stage 2. `pointwise` is Nogueira et "
    "al.'s yes or no, `independent` the paper's IndepPR, `joint` chooses passage after passage "
    "for the answers they add (docs/rerank.md). `oracle` is the best order of the candidates. "
    "Everything was tuned on AmbigNQ dev and WebQuestions dev."
)
Choices = Mapping[str, Any]


class Stored:
    """Passages whose vectors are there; questions are encoded."""

    def __init__(self, encoder: Encoder, store: PassageStore, vectors: Path) -> None:
        self._encoder, self._store = encoder, store
        self._vectors = np.concatenate(list(open_vectors(vectors).blocks()))
        self.key, self.dimension = encoder.key, encoder.dimension

    def encode_questions(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return (n, d) vectors."""
        return self._encoder.encode_questions(texts)

    def encode_passages(self, passages: Sequence[Passage]) -> NDArray[np.float32]:
        """Return (n, d) vectors."""
        rows = np.array([self._store.row_of(passage.id) for passage in passages], dtype=np.int64)
        return self._vectors[rows].astype(np.float32)


def answerable(questions: Sequence[Question], rankings: Iterable[Ranking]) -> list[Ranking]:
    """Return the rankings that are in a pack, which leaves questions without answers out."""
    known = {question.id for question in questions if has_answers(question)}
    return [ranking for ranking in rankings if ranking.question.id in known]


def chosen(rankings: Sequence[Ranking], places: Sequence[Sequence[int]]) -> list[Ranking]:
    """Return the candidates at these places, in their order."""
    return [
        ranked(ranking.question, ranking.hits, [(at, -float(i)) for i, at in enumerate(some)])
        for ranking, some in zip(rankings, places, strict=True)
    ]


def read(folder: Path) -> dict[str, Choices]:
    """Return what every model chose."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    return {one["model"]: one for one in found}


def runs_of(
    rankings: Sequence[Ranking],
    choices: Mapping[str, Choices],
    systems: Mapping[str, tuple[str, str]],
    data: str,
) -> Iterator[tuple[str, list[Ranking]]]:
    """Yield the rankings of the systems that chose for this data."""
    ids = [ranking.question.id for ranking in rankings]
    for system, (model, way) in systems.items():
        made = choices[model]["choices"].get(data, {}) if model in choices else {}
        if way in made:
            if choices[model]["questions"][data] != ids:
                raise DataError(f"{model} chose for other questions of {data} than the run has")
            yield system, chosen(rankings, made[way])


def records(scored: Evaluation, name: str, data: str) -> Iterator[Record]:
    """Yield the numbers of every system, and the first stage's best order as the oracle's."""
    for record in records_of(scored, name, data, commit()):
        if record.system == f"{FIRST}, best order":
            yield replace(record, system=ORACLE)
        elif not record.system.endswith(", best order"):
            yield record


@dataclass(frozen=True, slots=True)
class Found:
    """The numbers of one table, and its tests."""

    records: list[Record]
    tests: list[dict[str, object]]

    def add(self, scored: Evaluation, name: str, data: str, baseline: str) -> None:
        """Add those of one set; every system is tested against one of them."""
        self.records.extend(records(scored, name, data))
        if baseline in {run.name for run in scored.runs}:
            self.tests.extend(comparison_row(data, found) for found in compare(scored, baseline))


def draw(scored: Evaluation, path: Path) -> None:
    """Draw the main systems by the number of answers."""
    runs = tuple(run for run in scored.runs if run.name in (FIRST, "independent", "joint"))
    plot_by_answers(replace(scored, runs=runs), "MRecall@5", path)


def sweep(choices: Mapping[str, Choices]) -> dict[str, tuple[str, str]]:
    """Return the ways to decode that one model was asked for beside the usual one.

    Their names tell the mean depth of the trees, over all questions.
    """
    depths: Mapping[str, Mapping[str, float]] = choices.get("joint-0", {}).get("depths", {})
    sizes = [len(choices["joint-0"]["questions"][data]) for data in depths]
    swept = {
        f"{way}, d = {np.average([of[way] for of in depths.values()], weights=sizes):.1f}": way
        for way in dict.fromkeys(chain.from_iterable(depths.values()))
    }
    ways = {"joint": "sequence", "passages alone": "sequence, passages alone", **swept}
    return {system: ("joint-0", way) for system, way in ways.items()}


def main() -> None:
    """Read, score, record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    for name in ("questions", "runs", "choices"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--index", type=Path)
    parser.add_argument("--vectors", type=Path)
    parser.add_argument("--data", nargs="*", default=list(DATA))
    parser.add_argument("--results", type=Path, default=Path("results"))
    options = parser.parse_args()
    start, choices = time.perf_counter(), read(options.choices)
    diverse = None
    if options.index and options.vectors:
        stored = Stored(load_encoder(), Index(options.index).store, options.vectors)
        diverse = DiverseReranker(stored)
    found = [Found([], []) for _ in NAMES]
    others = {NAMES[1]: (ABLATION, MEASURES), NAMES[2]: (sweep(choices), OF_FIVE)}
    for data in options.data:
        questions = load_questions(options.questions / f"{data}.jsonl")
        run = load_rankings(options.runs / f"hybrid-{data}.jsonl")
        rankings = answerable(questions, run)
        base = {FIRST: rankings}
        if diverse:
            base[MMR] = list(diverse.rank_many(rankings, 10))
        runs = base | dict(runs_of(rankings, choices, TABLE, data))
        table = evaluate(questions, runs, MEASURES, pool=rankings, workers=2)
        found[0].add(table, NAMES[0], data, "independent")
        draw(table, options.results / f"joint-{data}.svg")
        for one, (name, (systems, measures)) in zip(found[1:], others.items(), strict=True):
            runs = dict(runs_of(rankings, choices, systems, data))
            if len(runs) > 1:
                scored = evaluate(questions, runs, measures, pool=rankings, workers=2)
                one.add(scored, name, data, "joint")
        print(f"{data}: {time.perf_counter() - start:.0f} s", flush=True)
    trained = [
        {k: v for k, v in one.items() if k not in ("choices", "questions")}
        for one in choices.values()
    ]
    inputs = {f"{data}.jsonl": options.questions / f"{data}.jsonl" for data in options.data}
    inputs |= {name: options.runs / name for name in (f"hybrid-{d}.jsonl" for d in options.data)}
    inputs |= {p.name: p for p in sorted(options.choices.glob("*.json"))}
    made = manifest(
        "python recipes/joint_table.py questions runs choices --index wiki --vectors vectors",
        inputs,
        time.perf_counter() - start,
    )
    for name, one in zip(NAMES, found, strict=True):
        extra = {"trained": trained, "tests": one.tests, "shown": [["MRecall@5", "own"]]}
        save_records(options.results, name, one.records, {"about": ABOUT, **made, **extra})


if __name__ == "__main__":
    main()
