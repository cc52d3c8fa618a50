"""Speed of the judge: 10,000 questions × 100 passages, against ir_measures with pyndeval.

python benchmarks/evaluate.py [--questions 10000] [--out results/benchmark-evaluate.json]

One run of each side on the same random judgements, after a warm-up of both; wall-clock seconds.
Compared are the measures that both have, at every cut-off of CUTOFFS, in two ways: from records to
means (ours also finds the oracle ordering of every ranking), and the measures alone, ours from the
arrays that it keeps, the peer's as before, since it keeps nothing. Then the search for answers in
texts of real size, which the peer does not do.
"""

import argparse
import json
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import ir_measures
import numpy as np

from jpr.coverage import Coverage, cover
from jpr.evaluation.evaluation import evaluate
from jpr.evaluation.measures import (
    ERR_IA,
    JudgedRun,
    Measure,
    MRecall,
    Recall,
    StRecall,
    alpha_nDCG,
)
from jpr.formats.runs.trec import Judgement
from jpr.io.atomic import publish
from jpr.io.manifest import manifest
from jpr.types import Hit, Passage, Question, Ranking

CUTOFFS = (5, 10, 20)
PASSAGES = 100
PEERS = ("ir_measures", "pyndeval")


T = TypeVar("T")


@dataclass(frozen=True)
class Timed(Generic[T]):
    """What something took, and what it gave."""

    seconds: float
    result: T


def timed(work: Callable[[], T]) -> Timed[T]:
    """Run it once and measure."""
    start = time.perf_counter()
    result = work()
    return Timed(time.perf_counter() - start, result)


@dataclass(frozen=True)
class Data:
    """The same judgements in our form and in the peer's."""

    judged: JudgedRun
    judgements: list[Judgement]
    rankings: list[Ranking]
    qrels: list[ir_measures.Qrel]
    run: list[ir_measures.ScoredDoc]


def random_data(n_questions: int, seed: int = 0) -> Data:
    """Draw judgements like those of a BM25 run: few answers, each in a few percent of passages."""
    chance = np.random.default_rng(seed)
    n_answers, covers, judgements, rankings = [], [], [], []
    for question in map(str, range(n_questions)):
        n = int(min(8, chance.geometric(0.45)))
        holds = chance.random((PASSAGES, n)) < 0.05
        holds[chance.integers(PASSAGES, size=n), np.arange(n)] = True
        n_answers.append(n)
        covers.append([np.flatnonzero(row).tolist() for row in holds])
        ids = [f"d{PASSAGES - i:03d}" for i in range(PASSAGES)]
        hits = (Hit(Passage(id, "", ""), float(PASSAGES - i)) for i, id in enumerate(ids))
        rankings.append(Ranking(Question(question, ""), tuple(hits)))
        judgements += [
            Judgement(question, str(answer), ids[i], 1)
            for i, row in enumerate(holds)
            for answer in np.flatnonzero(row)
        ]
    coverage = Coverage.of_lists(n_answers, covers)
    return Data(
        JudgedRun(coverage, coverage),
        judgements,
        rankings,
        [ir_measures.Qrel(j.question_id, j.passage_id, 1, j.subtopic) for j in judgements],
        [
            ir_measures.ScoredDoc(ranking.question.id, hit.passage.id, hit.score)
            for ranking in rankings
            for hit in ranking.hits
        ],
    )


def shared_measures() -> list[tuple[Measure, ir_measures.Measure]]:
    """Return what both sides compute, as (ours, theirs)."""
    pairs: list[tuple[Measure, ir_measures.Measure]] = []
    for k in CUTOFFS:
        pairs.append((alpha_nDCG(0.9) @ k, ir_measures.alpha_nDCG(alpha=0.9) @ k))
        pairs.append((ERR_IA @ k, ir_measures.ERR_IA @ k))
        pairs.append((StRecall @ k, ir_measures.StRecall @ k))
    return pairs


def theirs(data: Data, measures: list[ir_measures.Measure]) -> dict[ir_measures.Measure, float]:
    """Compute with ir_measures; α by itself, since 0.4.3 loses the second α of one call."""
    found: dict[ir_measures.Measure, float] = {}
    by_alpha = [m for m in measures if "alpha" in str(m)]
    for group in (by_alpha, [m for m in measures if m not in by_alpha]):
        found |= ir_measures.calc_aggregate(group, data.qrels, data.run)
    return found


def texts(n_questions: int, seed: int = 1) -> list[Ranking]:
    """Make rankings of passages of about 100 words, a tenth of which hold an answer."""
    chance = np.random.default_rng(seed)
    words = np.array(
        [f"{a}{b}{c}" for a in "bcdfgklm" for b in ("an", "el", "or") for c in "stuvwxyz"]
    )
    rankings = []
    for i in range(n_questions):
        name = " ".join(chance.choice(words, 2)).title()
        hits = []
        for rank in range(PASSAGES):
            text = chance.choice(words, 100)
            if chance.random() < 0.1:
                text[50:52] = name.split()
            hits.append(Hit(Passage(f"{i}-{rank}", "Title", " ".join(text) + "."), -rank))
        rankings.append(
            Ranking(Question(str(i), "?", ((name,), (f"{name} Jr.", "Nobody"))), tuple(hits))
        )
    return rankings


def main() -> None:
    """Measure, print a table, and keep the numbers."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--questions", type=int, default=10_000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    start = time.perf_counter()
    pairs = shared_measures()
    small = random_data(20)
    theirs(small, [t for _, t in pairs])
    [ours.of(small.judged) for ours, _ in pairs]

    data = random_data(options.questions)
    questions = [ranking.question for ranking in data.rankings]
    asked = [ours for ours, _ in pairs]
    whole = timed(lambda: evaluate(questions, {"run": data.rankings}, asked, qrels=data.judgements))
    alone = timed(lambda: [float(measure.of(data.judged).mean()) for measure in asked])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    peer = timed(lambda: theirs(data, [t for _, t in pairs]))
    means = whole.result.runs[0].values.mean(axis=0)
    for (ours, other), mean in zip(pairs, means, strict=True):
        assert abs(mean - peer.result[other]) < 1e-6, f"{ours}: {mean} against {peer.result[other]}"
    every = [*(m @ k for k in CUTOFFS for m in (MRecall, Recall)), *(ours for ours, _ in pairs)]
    everything = timed(lambda: [m.of(data.judged) for m in every])
    rankings = texts(options.questions)
    search = timed(lambda: cover(rankings, workers=1))
    search2 = timed(lambda: cover(rankings, workers=2))
    rows = {
        "questions": options.questions,
        "9 measures from records, ir_measures + pyndeval (s)": peer.seconds,
        "9 measures from records with oracle orderings, ours (s)": whole.seconds,
        "the peer's time over ours": peer.seconds / whole.seconds,
        "9 measures from arrays, ours (s)": alone.seconds,
        "all 15 of ours (s)": everything.seconds,
        "searching answers in all passages, 1 process (s)": search.seconds,
        "searching answers in all passages, 2 processes (s)": search2.seconds,
        "peak memory before the peer ran (MB)": before / 1024,
        "peak memory at the end (MB)": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    for name, value in rows.items():
        print(f"{name:55} {value:10.2f}")
    if options.out:
        seconds = time.perf_counter() - start
        made = manifest("python benchmarks/evaluate.py", {}, seconds, packages=PEERS)
        with publish(options.out) as stream:
            stream.write(json.dumps({**rows, "manifest": made}, indent=1) + "\n")


if __name__ == "__main__":
    main()
