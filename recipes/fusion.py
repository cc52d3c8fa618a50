"""Fit the weights of hybrid search per question, and score them with each domain left out.

Needs: the indexes that `recipes.domains` made in WORK, its question files, and a lexical index of
the Wikipedia passages (`jpr index passages.tsv.xz --encoder none --out wiki-bm25`) with questions.
Of these passages it indexes 85,000 and 300,000: those that BM25 finds for the questions, and random
ones. That takes an hour on two cores, the rest ten minutes.

    python -m recipes.fusion DOMAINS --work WORK --wiki wiki-bm25 --questions QUESTIONS

Fits on train files, prints the coefficients of `jpr/retrieve/question_mix.py`, and scores
development files with fixed weights as controls: `results/fusion.jsonl`.
"""

import argparse
import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jpr import MRecall, build_index, cover, evaluate, load_encoder, load_questions
from jpr.evaluation.compare import compare
from jpr.evaluation.evaluation import ALL
from jpr.io.manifest import commit, manifest
from jpr.retrieve.index import Index, add_to_index
from jpr.retrieve.question_mix import QuestionMix
from jpr.retrieve.rank_fusion import Scored, ScoreMix, strongest
from jpr.retrieve.retrievers import DEPTH, question_parts
from jpr.stages import Encoder
from jpr.types import NO_META, Hit, Passage, Question, Ranking
from recipes.command_line import results_parser
from recipes.domains import evenly_spaced
from recipes.report import Record, comparison_row, records_of, save_records

NAME, K = "fusion", 100
MEASURES = [MRecall @ 5, MRecall @ 10]
GRID = np.linspace(0.0, 1.0, 21)
"""Lexical weights for which every training question is scored."""
WIKI, WIKI_DOMAIN = ("wiki-85k", "wiki-300k"), "wikipedia"
WIKI_DEPTH = 50
WIKI_QUESTIONS = {
    "ambignq_train": 400,
    "webquestions_train": 300,
    "ambignq_dev": 300,
    "webquestions_dev": 300,
}
SHOWN = [["MRecall@5", "own", ALL], ["MRecall@5", "best", ALL]]
LOOK_ONLY = "subjqa"  # its gold answers are far from complete
ABOUT = (
    "Hybrid search with a lexical weight per question (`jpr/retrieve/question_mix.py`), 100 "
    "candidates, up to 400 questions of each development set. `per question` is fitted on the "
    "train files of all sets but subjqa; `per question, left out` without those of the tested "
    "domain. The Wikipedia sets are over 85,000 and 300,000 of 1.2 million passages, so their "
    "numbers compare with each other alone. Fixed weights are the controls; 0.3 was the default "
    "until now."
)
Floats = NDArray[np.float64]
Pair = tuple[Scored, Scored]


@dataclass(frozen=True, slots=True)
class Data:
    """The questions of a file, with the two rankings of each of its texts (whole, then parts)."""

    name: str
    domain: str
    index: Index
    questions: list[Question]
    found: list[list[Pair]]

    @property
    def passages(self) -> int:
        """Size of the corpus."""
        return len(self.index.store)


def search(
    name: str, domain: str, index: Index, questions: list[Question], encoder: Encoder
) -> Data:
    """Search both ways for questions and for their parts."""
    texts = [[question.text, *question_parts(question.text)] for question in questions]
    every = [text for some in texts for text in some]
    near = index.search_dense(encoder.encode_questions(every), DEPTH)
    pairs = zip((index.search_bm25(text, DEPTH) for text in every), near, strict=True)
    return Data(name, domain, index, questions, [[next(pairs) for _ in some] for some in texts])


def fused(data: Data, fusion: Callable[[Sequence[Scored]], Scored]) -> list[Ranking]:
    """Return the candidates that a fusion gives each question."""
    orders = [strongest([fusion(pair) for pair in pairs])[:K] for pairs in data.found]
    return [
        Ranking(question, tuple(Hit(data.index.store[row], score) for row, score in order))
        for question, order in zip(data.questions, orders, strict=True)
    ]


def examples(data: Data) -> tuple[Floats, Floats]:
    """Return signals (n, 5) and the worth of each weight in the grid (n, 21), of whole questions.

    Worth is MRecall@5 + MRecall@10 / 2 + the mean over answers of 1 / log2(1 + first rank).
    """
    mix, signals, worth = QuestionMix(data.passages), [], []
    for question, pairs in zip(data.questions, data.found, strict=True):
        if len(pairs) > 1:
            continue
        signals.append(mix.signals(*pairs[0]))
        rows = sorted({row for ranking in pairs[0] for row, _ in ranking})
        hits = tuple(Hit(data.index.store[row], 0.0) for row in rows)
        holds = cover([Ranking(question, hits)]).matrix(0)  # answers x rows
        column = {row: at for at, row in enumerate(rows)}
        orders = [_mixed(weight, pairs[0])[:K] for weight in GRID]
        worth.append([_worth(holds[:, [column[row] for row, _ in order]]) for order in orders])
    return np.array(signals), np.array(worth)


def _mixed(weight: float, pair: Pair) -> Scored:
    if weight in (0.0, 1.0):
        return ScoreMix((1.0,))([pair[0] if weight else pair[1]])
    return ScoreMix((weight, 1 - weight))(pair)


def _worth(holds: NDArray[np.bool_]) -> float:
    n = len(holds)
    recalls = [np.sum(holds[:, :k].any(1)) >= min(k, n) for k in (5, 10)]
    first = np.argmax(holds, axis=1)[holds.any(1)]
    return float(recalls[0] + recalls[1] / 2 + np.sum(1 / np.log2(2 + first)) / n)


def fit(sets: Sequence[tuple[Floats, Floats]], steps: int = 3000) -> Floats:
    """Return the coefficients whose weights are worth the most, all sets counting alike.

    Worth is smoothed over neighboring weights and interpolated between them, then climbed by Adam.
    """
    every = np.concatenate([signals for signals, _ in sets])
    mean, deviation = every.mean(0), every.std(0)
    mean[0], deviation[0] = 0.0, 1.0
    kernel = np.exp(-((GRID[:, None] - GRID) ** 2) / 0.02)
    kernel /= kernel.sum(0)
    scaled = [((signals - mean) / deviation, worth @ kernel) for signals, worth in sets]
    theta, first, second = np.zeros((3, len(mean)))
    decay = np.where(mean == 0, 0.0, 0.002)  # all but the constant
    for step in range(1, steps + 1):
        slope = np.mean([_slope(theta, *one) for one in scaled], axis=0)
        slope -= decay * theta
        first, second = 0.9 * first + 0.1 * slope, 0.999 * second + 0.001 * slope**2
        rate = 0.03 / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
        theta = theta + rate * first / (1 - 0.9**step)
    raw: Floats = theta / deviation
    raw[0] -= np.sum((mean / deviation * theta)[1:])
    return raw


def _slope(theta: Floats, signals: Floats, worth: Floats) -> Floats:
    """Return the gradient of the mean worth."""
    weight = 1 / (1 + np.exp(-signals @ theta))
    cell = np.minimum((weight * 20).astype(int), 19)
    n = np.arange(len(cell))
    rise = 20 * (worth[n, cell + 1] - worth[n, cell]) * weight * (1 - weight)
    slope: Floats = (rise[:, None] * signals).mean(0)
    return slope


def wiki_index(folder: Path, lexical: Index, questions: Path, encoder: Encoder) -> None:
    """Index the passages that BM25 finds for the questions, and random ones; then add more."""
    rows = set()
    for name, n in WIKI_QUESTIONS.items():
        for question in wiki_questions(questions, name, n):
            rows |= {row for row, _ in lexical.search_bm25(question.text, WIKI_DEPTH)}
    every = range(lexical.store.end)
    small = rows | set(random.Random(0).sample(every, 30_000))
    more = set(random.Random(1).sample(every, 230_000)) - small

    def bare(chosen: set[int]) -> Iterator[Passage]:
        return (replace(lexical.store[row], meta=NO_META) for row in sorted(chosen))

    for name, added in (("wiki-85k", set[int]()), ("wiki-300k", more)):
        if not (folder / name / "CURRENT").exists():
            build_index(bare(small), folder / name, source=name, encoder=encoder)
            if added:
                add_to_index(bare(added), folder / name, source=name, encoder=encoder)


def wiki_questions(folder: Path, name: str, n: int) -> list[Question]:
    """Return n questions with answers."""
    loaded = load_questions(folder / f"{name}.jsonl")
    return evenly_spaced([question for question in loaded if question.answers], n)


@dataclass(frozen=True, slots=True)
class QuestionSets:
    """The questions over one index, by the names of their sets."""

    domain: str
    index: Index
    train: dict[str, list[Question]]
    development: dict[str, list[Question]]


def question_sets(options: argparse.Namespace) -> Iterator[QuestionSets]:
    """Yield the sets of every index in WORK."""
    for folder in sorted(options.work.iterdir()):
        train: dict[str, list[Question]] = {}
        development: dict[str, list[Question]] = {}
        if folder.name in WIKI:
            for name, n in WIKI_QUESTIONS.items():
                into = development if name.endswith("_dev") else train
                questions = wiki_questions(options.questions, name, n)
                into[f"{folder.name}_{name.partition('_')[0]}"] = questions
        parts = re.compile(re.escape(folder.name) + r"(_parts)?\.(train|dev)")
        for file in sorted(options.domains.glob(f"{folder.name}*.jsonl*")):
            if found := parts.match(file.name):
                into = development if found[2] == "dev" else train
                into[file.name.partition(".")[0]] = evenly_spaced(load_questions(file))
        domain = WIKI_DOMAIN if folder.name in WIKI else folder.name
        yield QuestionSets(domain, Index(folder), train, development)


def systems(data: Data, everything: Floats, left_out: Floats) -> dict[str, list[Ranking]]:
    """Return the rankings of the fixed weights and of both fits."""
    runs = {
        "bm25": fused(data, lambda pair: ScoreMix((1.0,))([pair[0]])),
        "dense": fused(data, lambda pair: ScoreMix((1.0,))([pair[1]])),
    }
    for weight in (0.3, 0.5, 0.7):
        runs[f"{weight} : {1 - weight:.1f}"] = fused(data, ScoreMix((weight, 1 - weight)))
    for name, fitted in (("per question", everything), ("per question, left out", left_out)):
        runs[name] = fused(data, QuestionMix(data.passages, *fitted))
    return runs


def main() -> None:
    """Index, search, fit, score, record."""
    parser = results_parser(__doc__, "domains")
    for name in ("work", "wiki", "questions"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    options = parser.parse_args()
    start, encoder = time.perf_counter(), load_encoder(None)
    wiki_index(options.work, Index(options.wiki), options.questions, encoder)
    train: dict[str, tuple[str, tuple[Floats, Floats]]] = {}
    development: list[Data] = []
    for sets in question_sets(options):
        for name, questions in sets.development.items():
            development.append(search(name, sets.domain, sets.index, questions, encoder))
        for name, questions in sets.train.items():
            if sets.domain != LOOK_ONLY and not name.endswith("_parts"):
                data = search(name, sets.domain, sets.index, questions, encoder)
                train[name] = data.domain, examples(data)
        print(f"{sets.index.manifest.source}: {time.perf_counter() - start:.0f} s", flush=True)
    everything = fit([one for _, one in train.values()])
    print("coefficients", [round(float(x), 3) for x in everything], flush=True)
    records: list[Record] = []
    tests: list[dict[str, object]] = []
    coefficients = {"all": everything.round(3).tolist()}
    for data in development:
        others = fit([one for domain, one in train.values() if domain != data.domain])
        coefficients[f"without {data.domain}"] = others.round(3).tolist()
        scored = evaluate(data.questions, systems(data, everything, others), MEASURES, workers=2)
        records += records_of(scored, NAME, data.name, commit())
        tests += [comparison_row(data.name, found) for found in compare(scored, "per question")]
        print(f"{data.name}: {time.perf_counter() - start:.0f} s", flush=True)
    made = manifest(
        "python -m recipes.fusion DOMAINS --work WORK --wiki wiki-bm25 --questions QUESTIONS",
        {path.name: path for path in sorted(options.domains.glob("*.xz"))},
        time.perf_counter() - start,
        packages=("tantivy", "faiss-cpu", "onnxruntime"),
    )
    about = {"about": ABOUT, "coefficients": coefficients, "train": list(train)}
    save_records(options.results, NAME, records, {**about, **made, "tests": tests, "shown": SHOWN})


if __name__ == "__main__":
    main()
