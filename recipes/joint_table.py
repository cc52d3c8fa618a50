"""Score the choices of the joint rerankers: the paper's retrieval table, and the ablations.

Needs: the questions; the first stage's rankings, 100 each with texts (`--runs` of
recipes/first_stage.py); `choices/` of recipes/joint_models.py; and, for MMR, the index and
its vectors as encoded.

    python -m recipes.joint_table questions runs choices --index wiki --vectors vectors

Writes `joint.jsonl` and, for seeds, ablations and decoders, `joint-*.jsonl` to `results/`, with
paired tests in manifests, and figures by the number of answers.
"""

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jpr import MRecall, alpha_nDCG, evaluate, load_encoder
from jpr.encode.vectors import open_vectors
from jpr.errors import DataError
from jpr.evaluation.compare import compare
from jpr.evaluation.evaluation import ALL, MULTI, Evaluation, RunScores
from jpr.evaluation.plots import plot_by_answers
from jpr.formats.corpus.store import PassageStore
from jpr.io.manifest import commit, manifest
from jpr.rerank.diversify import DiverseReranker
from jpr.retrieve.index import Index
from jpr.stages import Encoder
from jpr.types import Passage, Ranking
from recipes.command_line import results_parser
from recipes.rankings import first_stage, input_files, select
from recipes.report import FIRST_STAGE as FIRST
from recipes.report import ORACLE, Record, comparison_row, records_of, save_records

DEV = ("ambignq_dev", "webquestions_dev")
DATA = ("ambignq_dev", "webqsp_test", "webquestions_dev", "trec_test")
MEASURES = [MRecall @ 5, alpha_nDCG(0.9) @ 5, MRecall @ 10, alpha_nDCG(0.9) @ 10]
OF_FIVE = 2
"""How many of the measures are of five passages, which is what the sweep of decoders chooses."""
MMR = "MMR"
SEEDS = (0, 1, 2)
SWEPT = "joint-0"
"""The model that every decoder was tried with."""
TABLE = {
    FIRST: FIRST,
    MMR: MMR,
    "pointwise": "pointwise-0: independent",
    "independent": "independent-0: independent",
    "joint": "joint-0: sequence",
}
SEEDED = {
    **{f"independent, seed {seed}": f"independent-{seed}: independent" for seed in SEEDS},
    **{f"joint, seed {seed}": f"joint-{seed}: sequence" for seed in SEEDS},
}
ABLATION = {
    "joint": "joint-0: sequence",
    "no negatives in prefixes": "no_negatives-0: sequence",
    "teacher forcing": "teacher_forcing-0: sequence",
    "targets as printed": "printed-0: sequence",
    "γ = 0.5": "gamma_half-0: sequence",
    "γ = 1.5": "gamma_more-0: sequence",
    "with other questions' passages": "random_negatives-0: sequence",
    "with more of them, longer": "random_negatives_long-0: sequence",
    "independent, chosen for answers": "independent-0: sequence",
    "stage 1 alone, chosen for answers": "first: sequence",
    "joint, passages alone": "joint-0: sequence, passages alone",
    "no negatives, passages alone": "no_negatives-0: sequence, passages alone",
    "teacher forcing, passages alone": "teacher_forcing-0: sequence, passages alone",
    "targets as printed, passages alone": "printed-0: sequence, passages alone",
    "joint, first step": "joint-0: independent",
    "stage 1 alone, first step": "first: independent",
}
TRAINING = {
    "1,000 steps of stage 1": "short: sequence",
    "with cloze questions": "short_cloze: sequence",
    "6,000 steps of stage 1": "first: sequence",
}
CONTRASTS = {
    "e5-small, all extra questions": "contrast: sequence",
    "no extra questions": "contrast_alone: sequence",
    "extra questions typed into a search engine alone": "contrast_search: sequence",
    "extra questions about facts alone": "contrast_facts: sequence",
    "extra trivia alone": "contrast_trivia: sequence",
    "without dropout": "contrast_no_dropout: sequence",
    "dropout 0.3": "contrast_dropout: sequence",
    "strict labels": "contrast_strict: sequence",
    "gte-small": "contrast_gte: sequence",
    "MiniLM-L6": "contrast_minilm: sequence",
    "MiniLM-L6, taught by the bundled model": "contrast_taught: sequence",
    "mpnet-base": "contrast_mpnet: sequence",
    FIRST: FIRST,
}
HALVES = {
    "the bundled model": "inside: sequence",
    "half its layers, taught by all": "half_taught: sequence",
}
HEADS = {
    "pointer": "t5_pointer: sequence",
    "index, of two candidates first": "t5_index: sequence",
    "index, at once": "t5_index_marks: sequence",
    "index, at once, over all tokens": "t5_index_alone: sequence",
    "pointer, 2,500 steps": "t5_pointer_long: sequence",
    "pointer, first step": "t5_pointer: independent",
    "index, of two candidates first, first step": "t5_index: independent",
    "index, at once, first step": "t5_index_marks: independent",
    "index, at once, over all tokens, first step": "t5_index_alone: independent",
    "pointer, 2,500 steps, first step": "t5_pointer_long: independent",
    FIRST: FIRST,
}
ABOUT = (
    "The 100 candidates are those of `jpr retrieve` as installed. All rerankers have the same "
    "encoder (e5-small, 12 layers of 384), the same stage 1 (`recipes/joint/first.toml`), the same "
    "questions and the same budget in stage 2 (`recipes/joint/`). `pointwise` is Nogueira et "
    "al.'s yes or no, `independent` the paper's IndepPR; `joint` is trained by the dynamic oracle, "
    "with negatives by the first stage's rank (the paper's are by IndepPR's score), and chooses "
    "passage after passage for the answers that each adds (docs/rerank.md). `oracle` is the oracle "
    "ordering of the candidates. Everything was tuned on AmbigNQ dev and WebQuestions dev."
)
ABOUT_SEEDS = (
    "`independent` and `joint` of the table `joint` with three seeds of stage 2, and the mean of "
    "each question over them. Joint rankings are tested against independent ones of the same seed."
)
ABOUT_ABLATION = (
    "What the joint reranker owes to what, on development data. *Chosen for answers*: one passage "
    "after another, by the answers that each adds, as `joint` is; *passages alone*: by P(next "
    "passage | prefix) of the same model, as in the paper; *first step*: by P(first passage)."
)
ABOUT_DECODING = (
    "`joint` (SeqDecode over passages that add answers) against TreeDecode with other β and beam "
    "search, on development data; d is the mean depth of the trees. *Passages alone* as above."
)
ABOUT_TRAINING = (
    "What stage 1 owes to its questions, on development data, chosen for answers: "
    "`recipes/joint/short*.toml`."
)
ABOUT_CONTRASTS = (
    "What it takes to generalize: 500 steps of stage 1 from an encoder as it comes, one thing "
    "changed at a time (`recipes/joint/contrast.toml`, `CONTRASTS` of `recipes/joint_models.py`), "
    "on development data, chosen for answers. The first row is what the others are tested against, "
    "and MiniLM-L6 what the taught one is, too."
)
ABOUT_HALVES = (
    "The bundled model and one of half its layers that it taught (`recipes/joint/half.toml`), both "
    "in 16 bits and with the first stage's rank as a prior, 0.3, on development data."
)
ABOUT_HEADS = (
    "The paper's head, which says numbers of candidates, against one that points: flan-t5-small "
    "without answers, 800 steps, on development data (`recipes/joint/t5_*.toml`). The manifest has "
    "every model's commit (`trained`); the one taught with two candidates first (400 steps) had by "
    "hand the settings that its recipes were then given."
)
SHOWN = [["MRecall@5", "own", slice] for slice in (ALL, MULTI)]
Choices = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Table:
    """Numbers that are published together."""

    name: str
    about: str
    systems: Mapping[str, str]
    """Names of systems, and their runs."""
    tested: Mapping[str, Sequence[str]]
    """Systems to test against one."""
    data: Sequence[str] = DATA
    measures: int = len(MEASURES)
    seeds: bool = False
    records: list[Record] = field(default_factory=list)
    tests: list[dict[str, object]] = field(default_factory=list)

    def add(self, everything: Evaluation, data: str) -> None:
        """Add the numbers of a set, and its tests; those of one model alone compare nothing."""
        if data not in self.data:
            return
        scored = named(everything, self.systems).first(self.measures)
        if len({run.name for run in scored.runs} - {FIRST, MMR}) < 2:
            return
        means = [mean(scored, name) for name in ("independent", "joint")] if self.seeds else []
        shown = replace(scored, runs=(*scored.runs, *means))
        self.records.extend(records(shown, self.name, data))
        for baseline, others in self.tested.items():
            if baseline not in {run.name for run in scored.runs}:
                continue
            runs = tuple(run for run in scored.runs if run.name in (baseline, *others))
            found = compare(replace(scored, runs=runs), baseline)
            self.tests.extend(comparison_row(data, one) for one in found)


def named(scored: Evaluation, systems: Mapping[str, str]) -> Evaluation:
    """Return the systems whose runs were scored, by their names; print those that were not."""
    runs = {run.name: run for run in scored.runs}
    if missing := [system for system, run in systems.items() if run not in runs]:
        print("missing:", "; ".join(missing), flush=True)
    kept = {system: runs[run] for system, run in systems.items() if run in runs}
    return replace(scored, runs=tuple(replace(run, name=name) for name, run in kept.items()))


def mean(scored: Evaluation, name: str) -> RunScores:
    """Return the mean over the seeds of a system."""
    values = [run.values for run in scored.runs if run.name.startswith(f"{name}, seed ")]
    return RunScores(f"{name}, three seeds", np.mean(values, axis=0))


def tables(choices: Mapping[str, Choices]) -> list[Table]:
    """Return the tables to fill."""
    against = [name for name in TABLE if name != "independent"]
    pairs = {f"independent, seed {seed}": [f"joint, seed {seed}"] for seed in SEEDS}
    swept = sweep(choices)
    taught = {"MiniLM-L6": ["MiniLM-L6, taught by the bundled model"]}
    contrasted = {**against_first(CONTRASTS), **taught}
    return [
        Table("joint", ABOUT, TABLE, {"independent": against}),
        Table("joint-seeds", ABOUT_SEEDS, SEEDED, pairs, seeds=True),
        Table("joint-ablation", ABOUT_ABLATION, ABLATION, {"joint": list(ABLATION)}, DEV),
        Table("joint-decoding", ABOUT_DECODING, swept, {"joint": list(swept)}, DEV, OF_FIVE),
        Table("joint-training", ABOUT_TRAINING, TRAINING, against_first(TRAINING), DEV),
        Table("joint-contrasts", ABOUT_CONTRASTS, CONTRASTS, contrasted, DEV),
        Table("joint-half", ABOUT_HALVES, HALVES, against_first(HALVES), DEV),
        Table("joint-heads", ABOUT_HEADS, HEADS, against_first(HEADS), DEV),
    ]


def against_first(systems: Mapping[str, str]) -> dict[str, list[str]]:
    """Return tests of all systems against the first of them."""
    return {next(iter(systems)): list(systems)}


class Stored:
    """Passages whose vectors were computed before; questions are encoded."""

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


def read(folder: Path) -> dict[str, Choices]:
    """Return the choices of every model."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    return {one["model"]: one for one in found}


def runs_of(
    rankings: Sequence[Ranking], choices: Mapping[str, Choices], data: str
) -> Iterator[tuple[str, list[Ranking]]]:
    """Yield all choices for a set, as `MODEL: WAY`."""
    ids = [ranking.question.id for ranking in rankings]
    for model, made in choices.items():
        if made["questions"].get(data, ids) != ids:
            raise DataError(f"{model} chose for other questions of {data} than the run has")
        for way, places in made["choices"].get(data, {}).items():
            yield f"{model}: {way}", select(rankings, places)


def records(scored: Evaluation, name: str, data: str) -> Iterator[Record]:
    """Yield the numbers of every system; the oracle is the first stage's in oracle order."""
    for record in records_of(scored, name, data, commit()):
        if record.system == f"{FIRST}, oracle":
            yield replace(record, system=ORACLE)
        elif not record.system.endswith(", oracle"):
            yield record


def draw(scored: Evaluation, path: Path) -> None:
    """Draw the main systems by the number of answers."""
    shown = {name: TABLE[name] for name in (FIRST, "independent", "joint")}
    plot_by_answers(named(scored, shown), "MRecall@5", path)


def sweep(choices: Mapping[str, Choices]) -> dict[str, str]:
    """Return the ways to decode that one model was asked for beside the usual one.

    Their names include the mean depth of the trees, over all questions.
    """
    depths: Mapping[str, Mapping[str, float]] = choices.get(SWEPT, {}).get("depths", {})
    sizes = [len(choices[SWEPT]["questions"][data]) for data in depths]
    swept = {
        f"{way}, d = {np.average([of[way] for of in depths.values()], weights=sizes):.1f}": way
        for way in dict.fromkeys(chain.from_iterable(depths.values()))
    }
    ways = {"joint": "sequence", "passages alone": "sequence, passages alone", **swept}
    return {system: f"{SWEPT}: {way}" for system, way in ways.items()}


def trained(choices: Mapping[str, Choices], runs: Iterable[str]) -> list[dict[str, object]]:
    """Return the training records of the models of these runs."""
    models = {run.partition(":")[0] for run in runs}
    return [
        {k: v for k, v in one.items() if k not in ("choices", "questions")}
        for model, one in choices.items()
        if model in models
    ]


def main() -> None:
    """Read, score, record."""
    parser = results_parser(__doc__, "questions", "runs", "choices")
    parser.add_argument("--index", type=Path)
    parser.add_argument("--vectors", type=Path)
    parser.add_argument("--data", nargs="*", default=list(DATA))
    options = parser.parse_args()
    start, choices = time.perf_counter(), read(options.choices)
    diverse = None
    if options.index and options.vectors:
        stored = Stored(load_encoder(), Index(options.index).store, options.vectors)
        diverse = DiverseReranker(stored)
    made, figures = tables(choices), {}
    for data in options.data:
        questions, rankings = first_stage(options, data)
        runs = {FIRST: rankings, **dict(runs_of(rankings, choices, data))}
        if diverse:
            runs[MMR] = list(diverse.rank_many(rankings, 10))
        scored = evaluate(questions, runs, MEASURES, pool=rankings, workers=2)
        for table in made:
            table.add(scored, data)
        if SWEPT in choices:
            figures[data] = f"joint-{data}.svg"
            draw(scored, options.results / figures[data])
        print(f"{data}: {time.perf_counter() - start:.0f} s", flush=True)
    inputs = input_files(options, options.data)
    inputs |= {p.name: p for p in sorted(options.choices.glob("*.json"))}
    depends = manifest(
        "python -m recipes.joint_table questions runs choices --index wiki --vectors vectors",
        inputs,
        time.perf_counter() - start,
    )
    for table in (table for table in made if table.records):
        of_table = {"about": table.about, **depends, "tests": table.tests, "shown": SHOWN}
        of_table |= {"trained": trained(choices, table.systems.values())}
        of_table |= {"figures": figures} if table is made[0] else {}
        save_records(options.results, table.name, table.records, of_table)


if __name__ == "__main__":
    main()
