"""Fit P(next | prefix) of the bundled model, and compare it with what it replaces.

Needs: a lexical index of the Wikipedia passages (`jpr index passages.tsv.xz --encoder none --out
wiki-bm25`), indexes of the domains in WORK/domains (`python -m recipes.domains DOMAINS --work
WORK/domains`), QUESTIONS and DOMAINS; no GPU. Reading the candidates takes an hour on
two cores, and is resumed; the rest takes minutes.

    python -m recipes.conditioning QUESTIONS DOMAINS --wiki wiki-bm25 --work WORK --out weights.json

The model is frozen: six weights are fitted (`jpr/train/conditioning.py`). The candidates of
Wikipedia questions are BM25's, those of domains hybrid search's. `left out` is fitted without the
domain that it is scored on. Writes `conditioning.jsonl` to `results/`.
"""

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jpr.coverage import Coverage
from jpr.decode.answers import AnswerCalibration
from jpr.decode.conditioning import COVERAGE, Conditioned, Conditioning
from jpr.decode.search import Limits, chosen_passages, decode_many
from jpr.decode.sequences import independent, sequence
from jpr.decode.tree import tree
from jpr.evaluation.evaluation import ALL, MULTI
from jpr.evaluation.measures import mrecall
from jpr.evaluation.prefix_effect import prefix_effect
from jpr.evaluation.statistics import bootstrap, mcnemar
from jpr.io.atomic import publish
from jpr.io.json_files import read_object
from jpr.io.manifest import commit, manifest
from jpr.models.joint_config import JOINT_JSON
from jpr.rerank.decoding import StoppingRule, calibrate
from jpr.rerank.joint import BUNDLED_MODEL
from jpr.train.conditioning import fit_conditioning
from recipes.command_line import results_parser
from recipes.evidence_files import EvidenceFiles, QuestionSet, ReadQuestion, by_question
from recipes.report import FIRST_STAGE, Record, save_records

NAME, SEED = "conditioning", 0
SHARES = (0.15, 0.3, 0.5)
"""What the Wikipedia questions count for in the fit, beside the domains. The first is taken: BM25's
candidates, which they have here, make the first stage look less useful than it is as installed."""
_STOP_K, _KEEP = 10, 0.9  # of `-k auto`
KS = (5, 10, 20)
_TREE = 5  # passages of a tree: a wide one of 20 takes minutes
INDEPENDENT, COVERING, LEFT_OUT, JOINT = (
    "independent", "independent + coverage", "joint, domain left out", "joint",
)  # fmt: skip
_DOMAINS = ("policyqa", "amazon_parts", "conditionalqa", "new_wiki", "new_wiki_parts", "amazon",
            "reddit", "reddit_parts", "covidqa", "covidqa_parts")  # fmt: skip
WIKI = [QuestionSet("webquestions_train", 60, 20), QuestionSet("ambignq_train", 60, 20)]
_PER_DOMAIN = {"policyqa": 20, "conditionalqa": 20}
TRAIN = WIKI + [
    QuestionSet(f"{name}.train", _PER_DOMAIN.get(name, 16 if "_parts" in name else 12), 0, 50)
    for name in _DOMAINS
]
DEV = [
    QuestionSet("webquestions_dev", 60, 40),
    QuestionSet("ambignq_dev", 70, 30),
    *(QuestionSet(f"{name}.dev", 30) for name in (*_DOMAINS, "subjqa")),
]
COMMAND = "python -m recipes.conditioning QUESTIONS DOMAINS --wiki wiki-bm25 --work WORK --out FILE"
ABOUT = (
    "P(next | prefix) of the bundled model, in 8 bits on a CPU, on development questions: BM25's "
    "100 candidates of Wikipedia questions, hybrid search's of the domains. `independent` is the "
    "decoder's first step, `independent + coverage` adds answers to the same weights (the default "
    "of 0.1), `joint` is P(next | prefix) with the six fitted weights, searched by SeqDecode."
)
Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Choices:
    """The places that a system chose for the questions of a set, 20 at most."""

    reads: Sequence[ReadQuestion]
    places: Sequence[Sequence[int]]
    ks: Sequence[int] = KS

    def reached(self, k: int) -> Flags:
        """Return for which questions the first k contain all answers, or k of them."""
        found = [one.covers[list(own[:k])].any(axis=0).sum() for one, own in self._pairs]
        return mrecall(np.array(found), np.array([one.covers.shape[1] for one in self.reads]), k)

    @property
    def _pairs(self) -> Iterator[tuple[ReadQuestion, Sequence[int]]]:
        return zip(self.reads, self.places, strict=True)


def fitted(sets: dict[str, list[ReadQuestion]], share: float = SHARES[0]) -> Conditioning:
    """Fit the weights; the Wikipedia sets have this share, and sets of a kind count alike."""
    wiki = {one.name for one in WIKI}
    weight: dict[str, float] = {}
    for is_wiki, part in ((True, share), (False, 1 - share)):
        kind = [name for name in sets if (name in wiki) == is_wiki]
        weight |= {name: part / len(kind) / len(sets[name]) for name in kind}
    return fit_conditioning(
        [one.example(weight[name]) for name, own in sets.items() for one in own], seed=SEED
    )


def joint(reads: list[ReadQuestion], weights: Conditioning) -> Choices:
    """Choose by P(next | prefix)."""
    ask = Conditioned(by_question(reads), [one.observed for one in reads], weights)
    searches = [sequence(len(one.covers), Limits(max(KS))) for one in reads]
    return Choices(reads, [chosen_passages(nodes) for nodes in decode_many(searches, ask)])


def grown(reads: list[ReadQuestion], weights: Conditioning, beta: float) -> Choices:
    """Choose five by TreeDecode."""
    ask = Conditioned(by_question(reads), [one.observed for one in reads], weights)
    searches = [tree(len(one.covers), Limits(_TREE), beta) for one in reads]
    found = [chosen_passages(nodes) for nodes in decode_many(searches, ask)]
    return Choices(reads, found, (_TREE,))


def controls(reads: list[ReadQuestion]) -> dict[str, Choices]:
    """Choose by the first stage, independently, and by coverage."""
    first = [range(min(max(KS), len(one.covers))) for one in reads]
    searches = [independent(len(one.covers), Limits(max(KS))) for one in reads]
    alone = [chosen_passages(nodes) for nodes in decode_many(searches, by_question(reads))]
    return {
        FIRST_STAGE: Choices(reads, first),
        INDEPENDENT: Choices(reads, alone),
        COVERING: joint(reads, COVERAGE),
    }


def records(data: str, system: str, choices: Choices) -> Iterator[Record]:
    """Yield MRecall with its interval."""
    several = np.array([one.covers.shape[1] > 1 for one in choices.reads], dtype=np.bool_)
    for k in choices.ks:
        reached = choices.reached(k).astype(np.float64)
        for slice, kept in ((ALL, np.ones_like(several)), (MULTI, several)):
            some = 100 * reached[kept]
            if len(some):
                (low,), (high,) = bootstrap(some[:, None]).tolist()
                value, n = float(some.mean()), len(some)
                yield Record(NAME, system, data, "MRecall", slice, k, value, low, high, n, commit())


def compared(data: str, ours: Choices, theirs: dict[str, Choices]) -> Iterator[dict[str, object]]:
    """Yield McNemar's test of `joint` against each control."""
    for name, other in theirs.items():
        for k in KS:
            one, two = (c.reached(k).astype(np.float64) for c in (ours, other))
            yield {
                "data": data, "against": name, "measure": f"MRecall@{k}", "n": len(one),
                "difference": float(100 * (one - two).mean()), "p": mcnemar(one, two),
            }  # fmt: skip


def effects(reads: list[ReadQuestion], weights: Conditioning) -> dict[str, dict[str, float]]:
    """Measure what prefixes change, with the fitted weights, by coverage, and by the decoder."""
    observed, covers = [one.observed for one in reads], [one.covers for one in reads]
    ask = by_question(reads)
    ways = {JOINT: Conditioned(ask, observed, weights), COVERING: Conditioned(ask, observed)}
    found = {name: prefix_effect(way, covers) for name, way in ways.items()}
    return {name: asdict(one) for name, one in found.items()}


def stopping_rule(reads: list[ReadQuestion], weights: Conditioning) -> StoppingRule:
    """Find the threshold of `-k auto` on these questions."""
    model = Conditioned(by_question(reads), [one.observed for one in reads], weights)
    searches = [sequence(len(one.covers), Limits(_STOP_K)) for one in reads]
    found = [
        [replace(node, worth=model.worth(at, node.prefix, node.passage)) for node in nodes]
        for at, nodes in enumerate(decode_many(searches, model))
    ]
    covers = [[np.flatnonzero(row).tolist() for row in one.covers] for one in reads]
    coverage = Coverage.of_lists([one.covers.shape[1] for one in reads], covers)
    threshold, kept, passages = calibrate(found, coverage, _KEEP)
    return StoppingRule(threshold, _STOP_K, "seq", 2.0, kept, passages, len(reads))


def bundled_calibration() -> AnswerCalibration:
    """Return the calibration of answers of the bundled model."""
    about = read_object(BUNDLED_MODEL / JOINT_JSON)["calibration"]
    assert isinstance(about, dict)
    return AnswerCalibration(**about)


def write_sections(path: Path, **sections: object) -> None:
    """Write the sections of a `joint.json` that were fitted."""
    with publish(path) as stream:
        stream.write(json.dumps(sections, indent=1) + "\n")


def main() -> None:
    """Read, fit, compare, record."""
    parser = results_parser(__doc__, "questions", "domains")
    for name in ("wiki", "work", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--betas", type=float, nargs="*", default=[-1.0, 0.0, 1.0])
    options = parser.parse_args()
    start, calibration = time.perf_counter(), bundled_calibration()
    files = EvidenceFiles(options.work, options.questions, options.domains, options.wiki)
    train = {one.name: files.read(one, calibration) for one in TRAIN}
    dev = {one.name: files.read(one, calibration) for one in DEV}
    weights = fitted(train)
    others = {f"joint, Wikipedia counts {share:g}": fitted(train, share) for share in SHARES[1:]}
    print(weights, others, flush=True)
    found: list[Record] = []
    tests: list[dict[str, object]] = []
    diagnostic: dict[str, object] = {}
    for requested in DEV:
        reads, data = dev[requested.name], requested.name.removesuffix(".dev")
        systems = controls(reads)
        ours = joint(reads, weights)
        tests += compared(data, ours, systems)
        systems[JOINT] = ours
        systems |= {name: joint(reads, other) for name, other in others.items()}
        if requested.domain:
            kept = [one.name for one in TRAIN if one.domain != requested.domain]
            systems[LEFT_OUT] = joint(reads, fitted({name: train[name] for name in kept}))
        else:
            trees = {f"tree, β = {b:g}": grown(reads, weights, b) for b in options.betas}
            trees[JOINT] = Choices(reads, ours.places, (_TREE,))
            for system, choices in trees.items():
                found += records(f"{data}, five by SeqDecode and TreeDecode", system, choices)
            diagnostic[data] = effects(reads, weights)
        for system, choices in systems.items():
            found += records(data, system, choices)
        shown = {name: round(100 * float(c.reached(5).mean()), 1) for name, c in systems.items()}
        print(data, len(reads), shown, f"{time.perf_counter() - start:.0f} s", flush=True)
    wiki = [one for requested in DEV if not requested.domain for one in dev[requested.name]]
    rule = stopping_rule(wiki, weights)
    write_sections(options.out, conditioning=asdict(weights), stop=asdict(rule))
    made = manifest(COMMAND, {JOINT_JSON: BUNDLED_MODEL / JOINT_JSON}, time.perf_counter() - start,
                    packages=("onnxruntime",))  # fmt: skip
    fit = {
        "weights": asdict(weights),
        "stop": asdict(rule),
        "training": {name: len(own) for name, own in train.items()},
    }
    about = {
        "about": ABOUT,
        **made,
        "seed": SEED,
        **fit,
        "tests": tests,
        "prefix effect": diagnostic,
    }
    save_records(options.results, NAME, found, about)


if __name__ == "__main__":
    main()
