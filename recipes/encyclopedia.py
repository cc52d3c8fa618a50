"""Score the bundled models on the demo encyclopedia, as users run them.

Needs nothing else. Some seconds per question on a CPU.

    python -m recipes.encyclopedia

The questions are `questions.jsonl` and, apart from them, `questions_lists.jsonl`, whose answers
stand in lists. Systems that choose passages: BM25 alone; the first stage, which mixes it with the
encoder's vectors; and of the first stage's 100 candidates, those that the joint model chooses
independently (`independent`) and one after another for the answers that each adds (`joint`). The
answers are those of `jpr ask -k 5` and `-k 10`; the control gives the likeliest of them alone.
Writes `encyclopedia.jsonl` to `results/`.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from jpr import (
    AnswerF1,
    MRecall_superset,
    Pipeline,
    evaluate,
    evaluate_answers,
    load_questions,
    open_retriever,
)
from jpr.bundled import CANDIDATES, ENCYCLOPEDIA, encyclopedia, open_pipeline, shared_encoder
from jpr.evaluation.answers import AnswerMeasure, matched
from jpr.evaluation.compare import compare
from jpr.evaluation.evaluation import ALL
from jpr.io.locks import cache_folder
from jpr.io.manifest import commit, manifest
from jpr.stages import Progress, Retriever
from jpr.types import INDEPENDENT, Prediction, Question, Ranking, Reply
from recipes.command_line import results_parser
from recipes.joint_table import MEASURES, records
from recipes.rankings import Clock
from recipes.report import FIRST_STAGE, Record, comparison_row, records_of, save_records

NAME = "encyclopedia"
QUESTIONS = {NAME: "questions.jsonl", f"{NAME}, lists": "questions_lists.jsonl"}
FILES = ("passages.jsonl", *QUESTIONS.values())
PACKAGES = ("onnxruntime", "tantivy", "faiss-cpu")
JOINT, ASK, LIKELIEST = "joint", "jpr ask", "the likeliest answer alone"
FEW, MANY = 5, 10
WAYS = {ASK: (None, FEW), JOINT: (None, MANY), INDEPENDENT: (INDEPENDENT, MANY)}
"""Decoder and k of every reply to a question."""
RANKING = [*MEASURES, MRecall_superset @ FEW, MRecall_superset @ MANY]
PRECISION = AnswerMeasure(
    "AnswerPrecision",
    lambda question, given: matched(question.answers, given) / max(1, len(given)),
)
RECALL = AnswerMeasure(
    "AnswerRecall", lambda question, given: matched(question.answers, given) / len(question.answers)
)
SHOWN = [
    [name, "own", ALL]
    for name in ("MRecall@5", "MRecall@10", "alpha_nDCG(0.9)@5", "AnswerF1@5", "AnswerF1@10")
]
"""Of the tests in the manifests, those in `docs/results.md`."""
ABOUT = (
    "The bundled models, in 8 bits on the CPU, on the demo encyclopedia "
    "(`jpr/assets/encyclopedia`), which was written for this project: questions with 2 to 8 "
    "answers each, and questions whose 5 to 20 answers stand in lists. No model was trained on it. "
    "The temperature of the choice, and how many answers to give, were chosen with the first of "
    "the two sets in view. MRecall@5 asks for five answers where a question has more, "
    "MRecall_superset@5 for all."
)


@dataclass(frozen=True, slots=True)
class Scores:
    """Numbers to publish, and paired tests."""

    records: list[Record]
    tests: list[dict[str, object]]


def replies(
    pipeline: Pipeline,
    asked: Iterable[tuple[str, Question]],
    ways: Mapping[str, tuple[str | None, int]],
    progress: Progress = lambda _: None,
) -> dict[str, list[Reply]]:
    """Return the replies to texts that ask questions, by decoder and k; each is encoded once."""
    found: dict[str, list[Reply]] = {way: [] for way in ways}
    for text, question in asked:
        opened = pipeline.open(text)
        for way, (decoder, k) in ways.items():
            reply = opened.reply(decoder=decoder, k=k)
            ranking = Ranking(question, reply.ranking.hits)
            candidates = Ranking(question, reply.candidates.hits)
            found[way].append(replace(reply, ranking=ranking, candidates=candidates))
        progress(1)
    return found


def chosen(found: Sequence[Reply]) -> list[Ranking]:
    """Return the passages that were chosen."""
    return [reply.ranking for reply in found]


def predictions(found: Sequence[Reply], most: int | None = None) -> list[Prediction]:
    """Return the answers that were given, or the likeliest of them."""
    return [
        Prediction(one.ranking.question.id, tuple(answer.text for answer in one.answers[:most]))
        for one in found
    ]


def score_passages(
    data: str, questions: Sequence[Question], found: Mapping[str, list[Reply]], bm25: Retriever
) -> Scores:
    """Score the passages of every system."""
    candidates = [reply.candidates for reply in found[JOINT]]
    runs = {
        "bm25": list(bm25.retrieve_many(questions, CANDIDATES)),
        FIRST_STAGE: candidates,
        **{name: chosen(found[name]) for name in (INDEPENDENT, JOINT)},
    }
    scored = evaluate(questions, runs, RANKING, pool=candidates, workers=2)
    tests = [comparison_row(data, one) for one in compare(scored, INDEPENDENT, (ALL,))]
    return Scores(list(records(scored, NAME, data)), tests)


def score_answers(
    data: str, questions: Sequence[Question], found: Sequence[Reply], k: int
) -> Scores:
    """Score the answers in k passages."""
    systems = {ASK: predictions(found), LIKELIEST: predictions(found, 1)}
    scored = evaluate_answers(questions, systems, [PRECISION, RECALL, AnswerF1])
    tests = [
        comparison_row(data, replace(one, measure=f"{one.measure}@{k}"))
        for one in compare(scored, LIKELIEST, (ALL,))
    ]
    of_answers = records_of(scored, NAME, f"{data}, answers", commit())
    return Scores([replace(record, k=k) for record in of_answers], tests)


def score(
    pipeline: Pipeline,
    bm25: Retriever,
    data: str,
    questions: Sequence[Question],
    progress: Progress = lambda _: None,
) -> list[Scores]:
    """Ask the questions of a set; score passages and answers."""
    found = replies(pipeline, ((one.text, one) for one in questions), WAYS, progress)
    return [
        score_passages(data, questions, found, bm25),
        score_answers(data, questions, found[ASK], FEW),
        score_answers(data, questions, found[JOINT], MANY),
    ]


def bm25_retriever() -> Retriever:
    """Open the encyclopedia's index for BM25 alone."""
    home = cache_folder() / "encyclopedia"
    return open_retriever(encyclopedia(home, shared_encoder("cpu")), "bm25")


def inputs() -> dict[str, Path]:
    """Return the files of the encyclopedia, for a manifest."""
    return {name: ENCYCLOPEDIA / name for name in FILES}


def save(folder: Path, recipe: str, parts: Sequence[Scores], about: Mapping[str, object]) -> None:
    """Write the numbers, and the tests with what the numbers depend on."""
    tests = [test for part in parts for test in part.tests]
    numbers = [record for part in parts for record in part.records]
    save_records(folder, recipe, numbers, {**about, "tests": tests, "shown": SHOWN})


def main() -> None:
    """Ask, score, record."""
    options = results_parser(__doc__).parse_args()
    start, clock = time.perf_counter(), Clock()
    pipeline, bm25 = open_pipeline(device="cpu"), bm25_retriever()
    parts: list[Scores] = []
    for data, file in QUESTIONS.items():
        parts += score(pipeline, bm25, data, load_questions(ENCYCLOPEDIA / file), clock)
    made = manifest(
        "python -m recipes.encyclopedia", inputs(), time.perf_counter() - start, packages=PACKAGES
    )
    save(options.results, NAME, parts, {"about": ABOUT, **made, "median seconds": clock.median})


if __name__ == "__main__":
    main()
