"""Train the bundled encoder on Wikipedia and on other kinds of text, taught by mpnet-base.

Needs: one GPU with 80 GB, 16 cores, 25 minutes; torch, numpy, tokenizers, safetensors. A folder
WEIGHTS with Hugging Face folders of all-MiniLM-L6-v2 (`minilm`), all-mpnet-base-v2 with BERT's
order of words (`mpnet`) and the encoder of 0.1.0 (`bundled`), made by `recipes/encoder_weights.py`;
INPUT with `bm25.npz` (`recipes/lexical_candidates.py`) and `texts.json`
(`recipes/encoder_texts.py`); the passages, QUESTIONS and DOMAINS as `recipes/fusion.py` has them.

    python -m recipes.encoder prepare mine:bundled teacher mine:teacher student general \\
        --passages passages.tsv.xz --questions QUESTIONS --domains DOMAINS --weights WEIGHTS \\
        --input INPUT --work WORK --out OUT

`prepare` tokenizes; `mine:NAME` finds, among the nearest passages by an encoder and BM25's first,
those with and without answers; `teacher` trains mpnet-base on Wikipedia; `student` trains a small
encoder on Wikipedia, taught by it; `general` continues on all kinds of text, and `without:DOMAIN`
does the same without one of them. `lists:NAME` writes the nearest passages of all texts in
`texts.json`, `codes:NAME` the vectors of all passages in 8 bits, in 32 files. Every stage keeps its
state in WORK.
"""

import argparse
import itertools
import json
import multiprocessing
from collections.abc import Sequence
from dataclasses import asdict
from multiprocessing.pool import Pool
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from jpr.models.checkpoint import write_checkpoint
from recipes.command_line import parser_of
from recipes.dpr_plus import DEVICE, found_in, half_weights, load_model, save_model, say
from recipes.dual_encoder import TokenRows, encode_rows, nearest
from recipes.encoder_corpora import (
    ONLY_DOMAINS,
    Corpora,
    encoded,
    load_named,
    load_texts,
    prepare,
    training_sets,
)
from recipes.encoder_data import (
    DOMAINS,
    LOOK_ONLY,
    WIKI_TRAIN,
    TrainingQuestion,
    question_file,
    read_questions,
)
from recipes.encoder_mining import load_ids, mined
from recipes.encoder_training import KEYWORDS, WIKI, Group, Teacher, Training, train
from recipes.mining import Example

DEPTH = 300
DEFAULTS = {
    "batch": 256,
    "teacher-steps": 1200,
    "teacher-seconds": 340,
    "student-steps": 4000,
    "student-seconds": 280,
    "general-steps": 800,
    "general-seconds": 60,
}
_CODES_PARTS = 32


def groups_of(
    options: argparse.Namespace,
    corpora: Corpora,
    mined_by: str,
    names: Sequence[str],
    taught: bool,
) -> dict[str, Group]:
    """Return the training questions of these corpora, with a teacher's vectors."""
    records: dict[str, list[tuple[list[list[int]], list[int], list[int]] | None]] = {}
    with (options.work / f"examples-{mined_by}.jsonl").open() as stream:
        for line in stream:
            data, record = json.loads(line)
            records.setdefault(data, []).append(record)
    kept: dict[str, list[tuple[TrainingQuestion, Example, float]]] = {}
    for data, corpus, asked in training_sets(options):
        factor = WIKI_TRAIN.get(data, 1.0)
        for one, record in zip(asked, records[data], strict=True):
            if corpus in names and record is not None:
                positives, hard, holding = record
                example = Example(tuple(map(tuple, positives)), tuple(hard), frozenset(holding))
                kept.setdefault(corpus, []).append((one, example, factor * one.weight))
    found = {}
    for corpus, rows in kept.items():
        asked, examples, weights = (list(part) for part in zip(*rows, strict=True))
        texts = corpora.questions([one.text for one in asked])
        teacher = _teacher(options, corpora, corpus, texts) if taught else None
        found[corpus] = Group(corpora.ranges[corpus], texts, examples, weights, teacher)
    say({corpus: len(group.examples) for corpus, group in found.items()})
    return found


def _teacher(
    options: argparse.Namespace, corpora: Corpora, corpus: str, texts: TokenRows
) -> Teacher:
    """Return the teacher of a corpus: ours for Wikipedia, elsewhere mpnet as it comes.

    So no question of a domain that is left out has taught anybody.
    """
    name, only = ("teacher", "") if corpus == WIKI else ("mpnet", ONLY_DOMAINS)
    model = load_named(options, name)
    passages = encoded(options, corpora, name, model, only)
    return Teacher(
        encode_rows(model, texts), passages, 0 if not only else corpora.ranges[WIKI].stop
    )


def teacher(options: argparse.Namespace, corpora: Corpora) -> None:
    """Train mpnet-base on Wikipedia."""
    groups = groups_of(options, corpora, "bundled", [WIKI], taught=False)
    model = load_model(options.weights / "mpnet", dropout=0.1)
    training = Training(
        options.teacher_steps, options.teacher_seconds, 2e-5, {WIKI: 1.0},
        hard=1, scale=50.0, batch=options.batch, seed=1,
    )  # fmt: skip
    train("teacher", model, corpora.both, groups, corpora.keyword_queries(), training)
    write_checkpoint(options.work / "teacher", asdict(model.config), half_weights(model))


def student(options: argparse.Namespace, corpora: Corpora) -> None:
    """Train the small encoder on Wikipedia, from between the one of 0.1.0 and MiniLM-L6."""
    groups = groups_of(options, corpora, "teacher", [WIKI], taught=True)
    model = load_model(options.weights / "bundled", dropout=0.1)
    other = load_model(options.weights / "minilm").state_dict()
    mean = {name: (weight + other[name]) / 2 for name, weight in model.state_dict().items()}
    model.load_state_dict(mean)
    training = Training(
        options.student_steps, options.student_seconds, 5e-5, {WIKI: 0.85, KEYWORDS: 0.15},
        batch=options.batch, seed=3,
    )  # fmt: skip
    train("student", model, corpora.both, groups, corpora.keyword_queries(), training)
    save_model(options, "student", model)


def general(options: argparse.Namespace, corpora: Corpora, without: str = "") -> None:
    """Continue on all kinds of text, or on all but one."""
    name = f"without-{without}" if without else "general"
    trained_on = [WIKI, *(domain for domain in DOMAINS if domain not in (without, LOOK_ONLY))]
    groups = groups_of(options, corpora, "teacher", trained_on, taught=True)
    domains = [domain for domain in groups if domain != WIKI]
    roots = {domain: len(groups[domain].examples) ** 0.5 for domain in domains}
    shares = {domain: 0.45 * root / sum(roots.values()) for domain, root in roots.items()}
    model = load_model(options.work / "student", dropout=0.1)
    training = Training(
        options.general_steps, options.general_seconds, 3e-5,
        {WIKI: 0.42, KEYWORDS: 0.13, **shares},
        batch=options.batch, teacher_weight=0.5, seed=4,
    )  # fmt: skip
    train(name, model, corpora.both, groups, corpora.keyword_queries(), training)
    if without:
        write_checkpoint(options.work / name, asdict(model.config), half_weights(model))
    else:
        save_model(options, name, model)


def lists(options: argparse.Namespace, corpora: Corpora, name: str, pool: Pool) -> None:
    """Write the nearest passages of evaluation texts; print MRecall@5 of development sets.

    Those of Wikipedia's texts; of an encoder that was trained without a domain, those of this
    domain's development sets and of the training sets of the others.
    """
    model = load_named(options, name)
    sets = json.loads((options.input / "texts.json").read_text())
    left_out = name.partition("without-")[2]
    whole = not left_out
    vectors = encoded(options, corpora, name, model, "" if whole else ONLY_DOMAINS)
    first = 0 if whole else corpora.ranges[WIKI].stop
    found: dict[str, dict[str, NDArray[np.generic]]] = {}
    for data, one in sets.items():
        if one["corpus"] == WIKI and not whole:
            continue
        rows = corpora.ranges[one["corpus"]]
        part = vectors[rows.start - first : rows.stop - first]
        near, scores = nearest(encode_rows(model, corpora.questions(one["texts"])), part, DEPTH)
        kind = WIKI if one["corpus"] == WIKI else data.rpartition(".")[2]
        if kind == WIKI if whole else (kind == "dev") == (one["corpus"] == left_out):
            kept = found.setdefault(kind, {})
            kept[f"{data}:rows"], kept[f"{data}:scores"] = near.numpy(), scores.numpy().astype("f2")
        if one["shown"]:
            show(options, name, data, rows.start, near.numpy(), pool)
    for kind, arrays in found.items():
        np.savez_compressed(options.out / f"{name}.{kind}.npz", allow_pickle=False, **arrays)


def show(
    options: argparse.Namespace,
    name: str,
    data: str,
    first: int,
    near: NDArray[np.int32],
    pool: Pool,
) -> None:
    """Print MRecall@5 as ranked and by the oracle of 100, all and several answers."""
    folder = options.questions if first == 0 else options.domains
    sets = json.loads((options.input / "texts.json").read_text())
    shown, places = set(sets[data]["shown"]), sets[data]["places"]
    asked = [one for one in read_questions(question_file(folder, data))
             if one.question.id in shown]  # fmt: skip
    tasks = [
        (one.question, (near[places[one.question.id]][:100] + first).tolist(), False)
        for one in asked
    ]
    results = pool.map(found_in, tasks, chunksize=64)
    lines = []
    for one, found in zip(asked, results, strict=True):
        n = len(one.question.answers)
        need = min(5, n)
        five = len({answer for held in found[:5] for answer in held}) >= need
        best = len({answer for held in found for answer in held}) >= need
        lines.append((n > 1, five, best))
    table = np.array(lines, dtype=float)
    several = table[table[:, 0] > 0]
    cells = [100 * part.mean(0)[1:] for part in (table, several) if len(part)]
    say(f"{name} {data}: MRecall@5 and oracle", *(cell.round(1).tolist() for cell in cells))


def codes(options: argparse.Namespace, name: str) -> None:
    """Write the vectors of all passages to WORK, each dimension in 256 steps of its range."""
    vectors = np.load(options.work / f"vectors-{name}.npy", mmap_mode="r")
    sample = np.asarray(vectors[::10], dtype=np.float32)
    low, high = sample.min(axis=0), sample.max(axis=0)
    folder = options.work / f"codes-{name}"
    folder.mkdir(exist_ok=True)
    np.save(folder / "range.npy", np.stack([low, high]))
    cuts = np.linspace(0, len(vectors), _CODES_PARTS + 1, dtype=np.int64)
    for i, (start, end) in enumerate(itertools.pairwise(cuts)):
        part = (np.asarray(vectors[start:end], dtype=np.float32) - low) / (high - low) * 255
        np.save(folder / f"codes.{i:02}.npy", part.round().clip(0, 255).astype(np.uint8))


def main() -> None:
    """Run the stages that were asked for."""
    parser = parser_of(__doc__)
    parser.add_argument("stages", nargs="+")
    for name in ("passages", "questions", "domains", "weights", "input", "work", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    for name, default in DEFAULTS.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    stages = list(options.stages)
    if stages[0] == "prepare":
        prepare(options)
        stages.pop(0)
    else:
        load_texts(options.work)
    load_ids(options)
    with multiprocessing.get_context("fork").Pool() as pool:
        corpora = Corpora(options)
        for stage in stages:
            say("stage", stage)
            run_stage(stage, options, corpora, pool)
            if DEVICE == "cuda":
                torch.cuda.empty_cache()
    described = {
        "stages": options.stages,
        "options": {k: v for k, v in vars(options).items() if isinstance(v, int)},
        "versions": {"torch": torch.__version__, "numpy": np.__version__},
        "device": torch.cuda.get_device_name() if DEVICE == "cuda" else "CPU",
    }
    (options.out / "manifest.json").write_text(json.dumps(described, indent=1) + "\n")


def run_stage(stage: str, options: argparse.Namespace, corpora: Corpora, pool: Pool) -> None:
    """Run one stage."""
    kind, _, name = stage.partition(":")
    if kind == "mine":
        mined(options, corpora, name, pool)
    elif kind == "lists":
        lists(options, corpora, name, pool)
    elif kind == "codes":
        codes(options, name)
    elif kind == "teacher":
        teacher(options, corpora)
    elif kind == "student":
        student(options, corpora)
    else:
        general(options, corpora, name)


if __name__ == "__main__":
    main()
