import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from jpr.coverage import Coverage
from jpr.errors import ConfigError, DataError
from jpr.evaluation.answers import EM, AnswerF1
from jpr.evaluation.compare import compare
from jpr.evaluation.evaluation import Evaluation, evaluate, evaluate_answers
from jpr.evaluation.measures import MRecall, MRecall_clusters, Recall, StRecall, alpha_nDCG
from jpr.evaluation.plots import curve_measures, plot_by_answers, plot_curve
from jpr.evaluation.tables import HEADER, as_json, compared_rows, latex, markdown, rows
from jpr.formats.runs.trec import Judgement
from jpr.oracle import Order
from jpr.types import Hit, Passage, Prediction, Question, Ranking

QUESTIONS = [
    Question("one", "single?", (("alpha",),)),
    Question("two", "double?", (("alpha",), ("beta",))),
    Question("three", "triple?", (("alpha",), ("beta",), ("gamma",))),
]


def ranking(id: str, *texts: str, scores: Sequence[float] | None = None) -> Ranking:
    """A ranking of passages whose ids are their texts."""
    scores = scores or range(len(texts), 0, -1)
    hits = [Hit(Passage(t, "", t), float(s)) for t, s in zip(texts, scores, strict=True)]
    return Ranking(Question(id, ""), tuple(hits))


GOOD = [
    ranking("one", "alpha a"),
    ranking("two", "alpha a", "beta b"),
    ranking("three", "beta gamma", "alpha a"),
]
POOR = [
    ranking("one", "alpha a"),
    ranking("two", "alpha a", "alpha c", "beta b"),
    ranking("three", "nothing", "alpha a", "beta gamma"),
]


@pytest.fixture
def evaluation() -> Evaluation:
    return evaluate(QUESTIONS, {"good": GOOD, "poor": POOR}, [MRecall @ 2, alpha_nDCG(0.9) @ 2])


def test_scores_on_all_and_on_multi_answer_questions(evaluation: Evaluation) -> None:
    assert [s.value for s in evaluation.scores(evaluation.run("good"))] == [1.0, 1.0]
    poor = evaluation.scores(evaluation.run("poor"))
    assert poor[0].value == pytest.approx(1 / 3)
    assert poor[0].n == 3
    multi = evaluation.scores(evaluation.run("poor"), "multi")
    assert (multi[0].value, multi[0].n) == (0.0, 2)
    assert evaluation.scores(evaluation.run("poor"), "1")[0].value == 1.0


def test_the_best_order_of_the_same_passages_is_the_headroom(evaluation: Evaluation) -> None:
    best = evaluation.run("poor").oracle
    assert best is not None
    assert best.values[:, 0].tolist() == best.bounds[:, 0].tolist() == [1, 1, 1]


def test_a_question_missing_from_a_run_scores_zero_and_is_counted() -> None:
    evaluation = evaluate(QUESTIONS, {"short": GOOD[:1]}, [MRecall @ 2])
    run = evaluation.runs[0]
    assert run.values[:, 0].tolist() == [1, 0, 0]
    assert run.missing == ("two", "three")


def test_other_questions_and_questions_without_answers_are_reported() -> None:
    questions = [*QUESTIONS[:1], Question("open", "no answer known?")]
    evaluation = evaluate(questions, {"run": [*GOOD, ranking("open", "x")]}, [Recall @ 1])
    assert evaluation.without_answers == ("open",)
    assert evaluation.runs[0].unknown == ("two", "three")  # "open" was asked, only unanswered
    assert len(evaluation.questions) == 1


def test_a_constant_scorer_is_not_judged_by_the_order_of_its_file() -> None:
    lucky = [ranking("one", "alpha a", "zulu", scores=[1.0, 1.0])]
    run = evaluate(QUESTIONS[:1], {"run": lucky}, [Recall @ 1]).runs[0]
    assert run.flat == 1
    assert run.values.tolist() == [[0.0]]  # "zulu" comes first by descending id


def test_the_pool_gives_the_ideal_more_to_choose_from() -> None:
    run = {"run": [ranking("two", "alpha a")]}
    alone = evaluate(QUESTIONS[1:2], run, [alpha_nDCG(0.9) @ 1])
    pooled = evaluate(
        QUESTIONS[1:2], run, [alpha_nDCG(0.9) @ 1], pool=[ranking("two", "alpha beta")]
    )
    assert alone.runs[0].values[0, 0] == 1.0
    assert pooled.runs[0].values[0, 0] == 0.5


def test_judgements_by_id() -> None:
    qrels = [
        Judgement("two", "a", "alpha a", 1),
        Judgement("two", "b", "elsewhere", 1),
        Judgement("two", "c", "beta b", 0),  # never relevant: no subtopic
    ]
    questions = [Question("two", "")]
    evaluation = evaluate(
        questions, {"run": GOOD[1:2]}, [MRecall_clusters @ 2, StRecall @ 2], qrels=qrels
    )
    assert evaluation.n_answers.tolist() == [2]
    assert evaluation.runs[0].values.tolist() == [[0.0, 0.5]]
    with pytest.raises(ConfigError, match="MRecall_clusters"):
        evaluate(questions, {"run": GOOD[1:2]}, [MRecall @ 2], qrels=qrels)


@pytest.mark.parametrize(
    ("runs", "measures", "error", "says"),
    [
        ({"r": GOOD}, [], ConfigError, "no measure"),
        ({"r": GOOD}, [MRecall_clusters @ 5], ConfigError, "needs qrels"),
        ({"r": [*GOOD, GOOD[0]]}, [MRecall @ 5], DataError, "'one' comes twice"),
        ({"r": [ranking("one", "x", "x")]}, [MRecall @ 5], DataError, "'x' comes 2 times"),
        ({"r": [ranking("other", "x")]}, [MRecall @ 5], DataError, "no ranking belongs"),
        (
            {"r": [Ranking(Question("one", ""), (Hit(Passage("7", "", ""), 1.0),))]},
            [MRecall @ 5],
            DataError,
            "only passage ids",
        ),
        (
            {
                "r": GOOD,
                "s": [Ranking(Question("one", ""), (Hit(Passage("alpha a", "", "z"), 1),))],
            },
            [MRecall @ 5],
            DataError,
            "two different texts",
        ),
    ],
)
def test_what_cannot_be_scored_is_explained(
    runs: dict[str, list[Ranking]], measures: list[object], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        evaluate(QUESTIONS, runs, measures)  # type: ignore[arg-type]  # wrong on purpose


def test_comparison_with_a_baseline(evaluation: Evaluation) -> None:
    comparisons = compare(evaluation, "poor")
    assert [(c.measure, c.slice, c.test) for c in comparisons] == [
        ("MRecall@2", "all", "McNemar"),
        ("alpha_nDCG(0.9)@2", "all", "permutation"),
        ("MRecall@2", "multi", "McNemar"),
        ("alpha_nDCG(0.9)@2", "multi", "permutation"),
    ]
    first = comparisons[0]
    assert first.difference == pytest.approx(2 / 3)
    assert first.p == pytest.approx(0.5)  # both of two disagreements: 2 / 2**2
    assert first.p_holm == 1.0  # four comparisons
    assert set(first.wins) == {"two", "three"}
    assert first.losses == ()
    with pytest.raises(ConfigError, match="'bad' is not among the runs"):
        compare(evaluation, "bad")


def test_answers_are_scored_on_ambigqas_multi_questions() -> None:
    given = [Prediction("one", ("alpha",)), Prediction("two", ("beta", "alpha"))]
    evaluation = evaluate_answers(QUESTIONS, {"reader": given}, [AnswerF1, EM])
    assert [s.value for s in evaluation.scores(evaluation.runs[0])] == pytest.approx([2 / 3, 2 / 3])
    assert evaluation.scores(evaluation.runs[0], "multi")[0].value == pytest.approx(1 / 2)
    assert evaluation.runs[0].missing == ("three",)


def test_tables_say_the_same_in_every_form(evaluation: Evaluation) -> None:
    table = rows(evaluation)
    assert table[2][:3] == ("poor", "MRecall@2", "33.3")
    assert "| poor | MRecall@2 | 33.3 |" in markdown(HEADER, table)
    assert r"poor & alpha\_nDCG(0.9)@2 &" in latex(HEADER, table)
    assert compared_rows(evaluation, compare(evaluation, "poor"))[0][4] == "+66.7"
    found = json.loads(
        json.dumps(as_json(evaluation.first(1), compare(evaluation.first(1), "poor")))
    )
    poor = found["runs"][1]
    assert (poor["run"], poor["n"], poor["n_multi"]) == ("poor", 3, 2)
    assert list(poor["measures"]) == ["MRecall@2"]
    cell = poor["measures"]["MRecall@2"]
    assert cell["all"] == pytest.approx(100 / 3)
    assert cell["multi"] == 0
    assert cell["low"] <= cell["all"] <= cell["high"]
    assert cell["best_order"] == 100
    assert cell["by_answers"]["1"] == {"n": 1, "value": 100.0}
    assert {c["measure"] for c in found["comparisons"]} == {"MRecall@2"}


def test_pictures_are_the_same_each_time(tmp_path: Path) -> None:
    evaluation = evaluate(QUESTIONS, {"good": GOOD, "poor": POOR}, curve_measures(3))
    plot_by_answers(evaluation, "MRecall@2", tmp_path / "a.svg")
    plot_by_answers(evaluation, "MRecall@2", tmp_path / "b.svg")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    plot_curve(evaluation, tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ConfigError, match=r"\.svg"):
        plot_curve(evaluation, tmp_path / "curve.txt")
    with pytest.raises(ConfigError, match="was not computed"):
        plot_by_answers(evaluation, "Recall@5", tmp_path / "a.svg")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.svg", "b.svg", "curve.png"]


def bare(id: str, *passages: str) -> Ranking:
    """A ranking of ids without texts, as in a TREC run."""
    hits = [Hit(Passage(p, "", ""), -float(i)) for i, p in enumerate(passages)]
    return Ranking(Question(id, ""), tuple(hits))


def test_a_run_of_ids_takes_texts_from_other_runs_but_never_scores_without() -> None:
    runs = {"texts": GOOD[1:2], "ids": [bare("two", "beta b", "alpha a", "unheard of")]}
    found = evaluate(QUESTIONS[1:2], runs, [MRecall @ 2]).run("ids")
    assert (found.values.tolist(), found.bare) == ([[1.0]], 1)
    runs["ids"] = [bare("two", "unheard of")]
    with pytest.raises(DataError, match="ids: the run holds only passage ids"):
        evaluate(QUESTIONS[1:2], runs, [MRecall @ 2])


def test_a_measure_must_be_complete_and_asked_for_once() -> None:
    for measures, says in (
        ([MRecall], "needs its k"),
        ([alpha_nDCG @ 5], "needs its α"),
        ([MRecall @ 5, MRecall @ 5], "twice"),
    ):
        with pytest.raises(ConfigError, match=says):
            evaluate(QUESTIONS, {"good": GOOD}, measures)
    for k in (0, 2.5, True, 10**7):
        with pytest.raises(ConfigError, match="whole number"):
            _ = MRecall @ k  # type: ignore[operator]  # wrong on purpose


def test_a_cut_off_beyond_every_ranking_costs_nothing() -> None:
    huge = [alpha_nDCG(0.9) @ 1_000_000, MRecall @ 1_000_000, StRecall @ 1_000_000]
    assert evaluate(QUESTIONS, {"good": GOOD}, huge).runs[0].values.tolist() == [[1.0] * 3] * 3


def test_with_judgements_only_judged_questions_count() -> None:
    qrels = [Judgement("two", "a", "alpha a", 1)]
    evaluation = evaluate(QUESTIONS, {"good": GOOD}, [StRecall @ 2], qrels=qrels)
    assert [question.id for question in evaluation.questions] == ["two"]
    assert evaluation.without_answers == ("one", "three")
    with pytest.raises(DataError, match="no question has a relevant judgement"):
        evaluate(QUESTIONS[:1], {"good": GOOD}, [StRecall @ 2], qrels=qrels)


def test_judged_passages_belong_to_the_ideal_even_if_no_run_has_them() -> None:
    qrels = [Judgement("two", "a", "alpha a", 1), Judgement("two", "b", "elsewhere", 1)]
    run = {"run": [ranking("two", "alpha a")]}
    found = evaluate([Question("two", "")], run, [alpha_nDCG(0.9) @ 2], qrels=qrels)
    assert found.runs[0].values[0, 0] == pytest.approx(1 / (1 + 1 / math.log2(3)))


def test_the_first_measures_alone(evaluation: Evaluation) -> None:
    alone = evaluation.first(1)
    assert [repr(measure) for measure in alone.measures] == ["MRecall@2"]
    assert compare(alone, "poor")[0].p_holm == 1.0  # two comparisons instead of four
    assert len(compare(alone, "poor")) == 2
    assert alone.runs[0].oracle is not None
    assert alone.runs[0].oracle.values.shape == (3, 1)


def test_a_search_cut_short_is_reported_by_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    def hurried(coverage: Coverage, k: int) -> Order:
        return Order([[0]] * len(coverage), np.array([1, 2, 3]))

    monkeypatch.setattr("jpr.evaluation.evaluation.best_cover", hurried)
    best = evaluate(QUESTIONS, {"good": GOOD}, [StRecall @ 2]).runs[0].oracle
    assert best is not None
    assert best.values[:, 0].tolist() == pytest.approx([1, 1 / 2, 2 / 3])
    assert best.bounds[:, 0].tolist() == [1, 1, 1]
    assert best.greedy[:, 0].tolist() == [1, 1, 1]


def test_wins_are_listed_clearest_first() -> None:
    worse = [ranking("two", "x", "alpha a"), ranking("three", "x")]
    runs = {"good": GOOD, "worse": worse}
    (first, *_) = compare(evaluate(QUESTIONS, runs, [StRecall @ 2]), "worse")
    assert first.wins == ("one", "three", "two")


def test_a_question_repeated_with_another_text_is_noted() -> None:
    texts = ["single?", "double?", "something else?"]
    run = [Ranking(Question(g.question.id, t), g.hits) for g, t in zip(GOOD, texts, strict=True)]
    assert evaluate(QUESTIONS, {"run": run}, [MRecall @ 2]).runs[0].differing == ("three",)
