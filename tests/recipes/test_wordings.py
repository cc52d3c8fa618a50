"""The recipes that ask the encyclopedia: `recipes.encyclopedia` and `recipes.wordings`."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from jpr import AnswerF1, Pipeline, load_questions, open_pipeline
from jpr.bundled import ENCYCLOPEDIA
from jpr.evaluation.evaluation import Evaluation, RunScores
from jpr.types import Answer, Question, Ranking, Reply
from recipes import encyclopedia, wordings
from recipes.report import load_records

COLORS = Question("1", "Which colors has the flag?", (("red", "scarlet"), ("white",), ("blue",)))


def reply(*answers: str) -> Reply:
    empty = Ranking(COLORS, ())
    return Reply(tuple(Answer(text, -float(i)) for i, text in enumerate(answers)), empty, empty)


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JPR_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield open_pipeline(candidates=10, device="cpu")


@pytest.mark.parametrize(
    ("given", "precision", "recall", "f1"),
    [
        (("scarlet", "green", "white", "black"), 2 / 4, 2 / 3, 4 / 7),
        (("red", "scarlet"), 1 / 2, 1 / 3, 2 / 5),  # two spellings of one color
        ((), 0, 0, 0),
    ],
)
def test_answers_have_precision_recall_and_f1(
    given: tuple[str, ...], precision: float, recall: float, f1: float
) -> None:
    measured = {
        (one.system, one.measure): one.value
        for one in encyclopedia.score_answers("flags", [COLORS], [reply(*given)], 5).records
    }
    names = ("AnswerPrecision", "AnswerRecall", "AnswerF1")
    for name, value in zip(names, (precision, recall, f1), strict=True):
        assert measured[encyclopedia.ASK, name] == pytest.approx(100 * value)


def test_the_control_gives_the_likeliest_answer_alone() -> None:
    scored = encyclopedia.score_answers("flags", [COLORS], [reply("blue", "green")], 10)
    measured = {(one.system, one.measure, one.k): one.value for one in scored.records}
    assert measured[encyclopedia.LIKELIEST, "AnswerPrecision", 10] == 100
    assert measured[encyclopedia.ASK, "AnswerPrecision", 10] == 50


def test_three_questions_are_scored(pipeline: Pipeline, tmp_path: Path) -> None:
    questions = load_questions(ENCYCLOPEDIA / "questions_lists.jsonl")[:3]
    parts = encyclopedia.score(pipeline, encyclopedia.bm25_retriever(), "lists", questions)
    encyclopedia.save(tmp_path, "some", parts, {})
    records = load_records(tmp_path)
    assert {one.n for one in records} == {3}
    passages = {one.system for one in records if one.data == "lists"}
    assert passages == {"bm25", "first-stage", "independent", "joint", "oracle"}
    answers = {one.system for one in records if one.data == "lists, answers"}
    assert answers == {encyclopedia.ASK, encyclopedia.LIKELIEST}


def test_a_reply_is_to_the_question_however_it_is_worded(pipeline: Pipeline) -> None:
    asked = [("insulin discoverer", replace(COLORS, id="7"))]
    found = encyclopedia.replies(pipeline, asked, encyclopedia.WAYS)
    few, many = (found[name][0] for name in (encyclopedia.ASK, encyclopedia.JOINT))
    assert few.ranking.question.id == "7"
    assert "John Macleod" in [hit.passage.title for hit in few.ranking.hits]
    assert few.ranking == many.ranking.top(5)


def test_forty_questions_have_five_further_wordings() -> None:
    found = wordings.load_wordings()
    assert [len(asked) for asked in found.values()] == [40] * 6
    parts = wordings.sets_of([question for _, question in found[wordings.AS_WRITTEN]])
    assert [len(part) for part in parts.values()] == [40, 20, 20]
    for same in zip(*found.values(), strict=True):
        assert len({question for _, question in same}) == 1
        assert len({text for text, _ in same}) == 6


def test_the_spread_is_within_the_wordings_of_a_question() -> None:
    values = ([0.0, 0.5], [1.0, 0.5])  # two wordings of two questions
    runs = tuple(RunScores(f"{i}", np.array(one)[:, None]) for i, one in enumerate(values))
    questions, numbers = (COLORS, COLORS), np.array([3, 3])
    scored = Evaluation(questions, numbers, numbers > 1, (AnswerF1,), runs)
    found = wordings.with_spread(scored)
    assert found.run(wordings.SPREAD).values.tolist() == [[1.0], [0.0]]
    assert found.run(wordings.DEVIATION).values.tolist() == [[0.5], [0.0]]


def test_two_questions_are_scored_in_two_wordings(pipeline: Pipeline) -> None:
    asked = wordings.load_wordings()
    some = {kind: [asked[kind][0], asked[kind][-1]] for kind in (wordings.AS_WRITTEN, "keywords")}
    questions = [question for _, question in some["keywords"]]
    scored = wordings.score("two", questions, wordings.ask(pipeline, some))
    assert {one.system for one in scored.records} == {*some, wordings.SPREAD, wordings.DEVIATION}
    kinds = {(one.measure, one.k, one.n) for one in scored.records}
    assert kinds == {("MRecall", 5, 2), ("AnswerF1", 5, 2)}
    assert {test["measure"] for test in scored.tests} == {"MRecall@5", "AnswerF1@5"}
