"""Measure how far the wording of a question decides which passages and answers it gets.

Needs nothing else; some seconds per wording on a CPU, about a quarter of an hour in all.

    python -m recipes.wordings

`wordings.jsonl` words 40 questions of the demo encyclopedia in five further ways, with the same
answers: a paraphrase, keywords, "List all …", "Name the …", and singular for plural or the reverse.
Scored are the passages and the answers of `jpr ask -k 5`; the spread is over the six wordings of a
question. Writes `wordings.jsonl` to `results/`, with paired tests in the manifest.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from jpr import AnswerF1, MRecall, Pipeline, evaluate, evaluate_answers, load_questions
from jpr.bundled import ENCYCLOPEDIA, open_pipeline
from jpr.evaluation.compare import compare
from jpr.evaluation.evaluation import ALL, Evaluation, RunScores
from jpr.io.json_files import iter_json
from jpr.io.manifest import manifest
from jpr.stages import Progress
from jpr.types import Question, Reply
from recipes.command_line import results_parser
from recipes.encyclopedia import (
    ASK,
    FEW,
    PACKAGES,
    QUESTIONS,
    Scores,
    chosen,
    inputs,
    predictions,
    replies,
    save,
)
from recipes.joint_table import records
from recipes.rankings import Clock
from recipes.report import comparison_row

NAME = "wordings"
WORDINGS = Path(__file__).with_name("wordings.jsonl")
AS_WRITTEN = "as written"
SPREAD, DEVIATION = "best – worst wording", "standard deviation over wordings"
ABOUT = (
    "Forty questions of the demo encyclopedia, half of them about lists, in six wordings each "
    "(`recipes/wordings.jsonl`), asked as by `jpr ask -k 5`. The last two rows are over the six "
    "wordings of each question: the difference between the best and the worst, and the standard "
    "deviation, each averaged over questions. Development data: what is measured here may be "
    "tuned on."
)
Wordings = Mapping[str, list[tuple[str, Question]]]
"""By the kind of wording: how the questions are asked, in the same order."""


def load_wordings() -> Wordings:
    """Return the questions of `wordings.jsonl` in every wording, with their answers."""
    files = (ENCYCLOPEDIA / name for name in QUESTIONS.values())
    known = {question.id: question for file in files for question in load_questions(file)}
    found: dict[str, list[tuple[str, Question]]] = {}
    for _, row in iter_json(WORDINGS):
        question = known[row.pop("id")]
        for kind, text in {AS_WRITTEN: question.text, **row}.items():
            found.setdefault(kind, []).append((text, question))
    return found


def ask(
    pipeline: Pipeline, wordings: Wordings, progress: Progress = lambda _: None
) -> dict[str, list[Reply]]:
    """Return the replies to every wording."""
    ways = {ASK: (None, FEW)}
    return {kind: replies(pipeline, asked, ways, progress)[ASK] for kind, asked in wordings.items()}


def with_spread(scored: Evaluation) -> Evaluation:
    """Add what the wordings of a question differ by."""
    values = np.stack([run.values for run in scored.runs])
    spread = RunScores(SPREAD, np.ptp(values, axis=0)), RunScores(DEVIATION, values.std(axis=0))
    return replace(scored, runs=(*scored.runs, *spread))


def score(data: str, questions: Sequence[Question], found: Mapping[str, list[Reply]]) -> Scores:
    """Score passages and answers of these questions in every wording."""
    ids = {question.id for question in questions}
    kept = {
        kind: [reply for reply in some if reply.ranking.question.id in ids]
        for kind, some in found.items()
    }
    passages = {kind: chosen(some) for kind, some in kept.items()}
    answers = {kind: predictions(some) for kind, some in kept.items()}
    of_passages = evaluate(questions, passages, [MRecall @ FEW])
    of_answers = evaluate_answers(questions, answers, [AnswerF1])
    made, tests = [], []
    for scored in (of_passages, of_answers):
        made += [replace(one, k=FEW) for one in records(with_spread(scored), NAME, data)]
        for one in compare(scored, AS_WRITTEN, (ALL,)):
            measure = f"{one.measure.removesuffix(f'@{FEW}')}@{FEW}"
            tests.append(comparison_row(data, replace(one, measure=measure)))
    return Scores(made, tests)


def sets_of(questions: Sequence[Question]) -> dict[str, Sequence[Question]]:
    """Return all questions, and those of each file of the encyclopedia."""
    lists = [question for question in questions if question.id.startswith("lists-")]
    others = [question for question in questions if question not in lists]
    names = ("all questions", *QUESTIONS)
    return dict(zip(names, (questions, others, lists), strict=True))


def main() -> None:
    """Ask, score, record."""
    options = results_parser(__doc__).parse_args()
    start, clock, wordings = time.perf_counter(), Clock(), load_wordings()
    found = ask(open_pipeline(k=FEW, device="cpu"), wordings, clock)
    questions = [question for _, question in wordings[AS_WRITTEN]]
    parts = [score(*one, found) for one in sets_of(questions).items()]
    made = manifest(
        "python -m recipes.wordings",
        {**inputs(), WORDINGS.name: WORDINGS},
        time.perf_counter() - start,
        packages=PACKAGES,
    )
    save(options.results, NAME, parts, {"about": ABOUT, **made, "median seconds": clock.median})


if __name__ == "__main__":
    main()
