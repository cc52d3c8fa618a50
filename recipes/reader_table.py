"""Score the answers of readers: the paper's table of answers, by source of the passages.

Needs: the questions; the first stage's rankings, 100 each with texts; `answers/` of
recipes/reader_models.py; and the tokenizers of the joint model and of the T5.

    python -m recipes.reader_table questions runs answers --joint models/joint-0 --t5 models/flan

Writes `reader.jsonl` (or `--name`) to `results/`, with paired tests in its manifest. F1 is
AmbigQA's, EM that of the likeliest answer.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jpr import EM, AnswerF1, evaluate_answers, load_questions, load_rankings
from jpr.decode.answers import Evidence
from jpr.encode.tokenizer import read_tokenizer
from jpr.errors import DataError
from jpr.evaluation.compare import compare
from jpr.evaluation.evaluation import ALL, MULTI
from jpr.io.manifest import commit, manifest
from jpr.models.generation import GeneratedAnswer
from jpr.read.generate import placed
from jpr.read.spans import likely
from jpr.rerank.answer_text import AnswerLocator, candidate_answers
from jpr.train.sources import has_answers
from jpr.types import Answer, Hit, Prediction, Question, Ranking
from recipes.command_line import results_parser
from recipes.rankings import input_files
from recipes.reader_models import NOWHERE, SIZES
from recipes.report import comparison_row, records_of, save_records

ABOUT = (
    "Answers to the questions, by who reads what. PassageTokens are ten of each question's 100 "
    "candidates. `t5` is flan-t5-small as a reader (Fusion in Decoder, grounded, greedy), trained "
    "for each source of passages on what it chooses for the same training questions "
    "(`recipes/reader.toml`); `spans` a joint model's own answers in those passages alone, `all` "
    "the same by all candidates, of which those are given that the ten contain. A number after the "
    "source is taken off the log-probability to end. Thresholds were tuned on AmbigNQ dev and "
    "WebQuestions dev."
)
ABOUT_SOME = {
    "first": " `first`: the first stage's first passages.",
    "independent": " `independent`: IndepPR's.",
    "joint": " `joint`: JPR's.",
    "inside": " `inside`: those that the bundled model chooses.",
    "lambda": " `lambda`: the same with λ = 0.5, which prefers passages that state an answer.",
    "half": " `half` is the same T5 without every second layer, which reads 20 passages in the "
    "memory that the whole one needs for ten.",
}
"""Added to the description if there are such systems."""
SHOWN = [["AnswerF1", "own", slice] for slice in (ALL, MULTI)]
BASELINES = ("independent", "first")
"""Systems are compared with the first of these that exists."""


def tokenizer_places(folder: Path) -> AnswerLocator:
    """Return a finder of tokens in texts."""
    tokenizer = read_tokenizer(folder / "tokenizer.json")
    return AnswerLocator(tokenizer)


def spans_answers(
    found: Sequence[Mapping[str, Any]], hits: Sequence[Hit], places: AnswerLocator
) -> tuple[Answer, ...]:
    """Return the answers of a joint model's spans."""
    if not found:
        return ()
    holds = np.zeros((len(hits), len(found)), dtype=np.bool_)
    for answer, one in enumerate(found):
        holds[one["holds"], answer] = True
    known = Evidence(
        tuple(tuple(one["tokens"]) for one in found), np.zeros(holds.shape, np.float32), holds
    )
    mass = np.array([one["mass"] for one in found])
    return likely(candidate_answers(known, mass, hits, range(len(hits)), places))


def writes(system: str) -> bool:
    """Return whether a system is a T5."""
    return system.split("-")[0] in SIZES


def answers_of(
    made: Mapping[str, Any], at: int, hits: Sequence[Hit], places: AnswerLocator
) -> tuple[Answer, ...]:
    """Return the answers of a system to its question number `at`."""
    found = made["answers"][at]
    if writes(made["system"]):
        written = [GeneratedAnswer(tuple(one["tokens"]), one["log_prob"]) for one in found]
        return placed(written, hits, places)
    return spans_answers(found, hits, places)


def predictions(
    made: Mapping[str, Any], rankings: Mapping[str, Ranking], places: AnswerLocator
) -> Iterator[Prediction]:
    """Yield the answers of a system, as the passages write them."""
    for at, id in enumerate(made["questions"]):
        chosen = [place for place in made["places"][at] if place != NOWHERE]
        hits = [rankings[id].hits[place] for place in chosen]
        yield Prediction(id, tuple(a.text for a in answers_of(made, at, hits, places)))


def read(files: Sequence[Path]) -> dict[str, dict[str, Mapping[str, Any]]]:
    """Return the systems that answered the questions of each set."""
    found: dict[str, dict[str, Mapping[str, Any]]] = {}
    for path in files:
        one = json.loads(path.read_text(encoding="utf-8"))
        found.setdefault(one["pack"], {})[one["system"]] = one
        if any(one["asked for"].values()):
            print(f"{path.name}: made to try it out, {one['asked for']}", flush=True)
    return found


def asked(
    questions: Sequence[Question], systems: Mapping[str, Mapping[str, Any]]
) -> list[Question]:
    """Return the questions that all systems answered."""
    known = [question for question in questions if has_answers(question)]
    for name, one in systems.items():
        if list(one["questions"]) != [question.id for question in known]:
            raise DataError(f"{name} answered other questions than the file has")
    return known


def tested(names: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the whole T5 and the half one of each source, and each reader's baseline and others."""
    for name in names:
        if f"half-{name.removeprefix('t5-')}" in names and name.startswith("t5-"):
            yield name, [f"half-{name.removeprefix('t5-')}"]
    for reader in dict.fromkeys(name.split("-")[0] for name in names):
        own = [name for name in names if name.split("-")[0] == reader]
        baseline = next((f"{reader}-{one}" for one in BASELINES if f"{reader}-{one}" in own), "")
        if baseline and len(own) > 1:
            yield baseline, [name for name in own if name != baseline]


def main() -> None:
    """Read, score, record."""
    parser = results_parser(__doc__, "questions", "runs", "answers")
    parser.add_argument("--joint", type=Path, required=True)
    parser.add_argument("--t5", type=Path, required=True)
    parser.add_argument("--name", default="reader", help="of the results")
    options = parser.parse_args()
    start = time.perf_counter()
    finders = {"t5": tokenizer_places(options.t5), "joint": tokenizer_places(options.joint)}
    files = sorted(options.answers.glob("*.json"))
    sets = read(files)
    records, tests = [], []
    for data, systems in sorted(sets.items()):
        questions = asked(load_questions(options.questions / f"{data}.jsonl"), systems)
        run = load_rankings(options.runs / f"hybrid-{data}.jsonl")
        rankings = {ranking.question.id: ranking for ranking in run}
        given = {
            name: list(predictions(one, rankings, finders["t5" if writes(name) else "joint"]))
            for name, one in systems.items()
        }
        scored = evaluate_answers(questions, given, [AnswerF1, EM])
        records += list(records_of(scored, options.name, data, commit()))
        for baseline, others in tested(list(systems)):
            kept = evaluate_answers(
                questions, {n: given[n] for n in (baseline, *others)}, [AnswerF1, EM]
            )
            tests += [comparison_row(data, one) for one in compare(kept, baseline)]
        print(f"{data}: {time.perf_counter() - start:.0f} s", flush=True)
    inputs = input_files(options, sets)
    inputs |= {path.name: path for path in files}
    depends = manifest(
        f"python -m recipes.reader_table questions runs answers --name {options.name} "
        f"--joint models/{options.joint.name} --t5 models/flan",
        inputs,
        time.perf_counter() - start,
    )
    names = {part for systems in sets.values() for name in systems for part in name.split("-")}
    said = ABOUT + "".join(text for part, text in ABOUT_SOME.items() if part in names)
    about = {"about": said, **depends, "tests": tests, "shown": SHOWN}
    save_records(options.results, options.name, records, about)


if __name__ == "__main__":
    main()
