import io
from collections.abc import Callable
from pathlib import Path

import ir_measures
import pytest
from ir_measures import RR

from jpr.errors import DataError, FormatError
from jpr.formats.runs import load_rankings, write_rankings
from jpr.types import Hit, Passage, Question, Ranking

Save = Callable[..., Path]


def ranking(question: str, *scored: tuple[str, float]) -> Ranking:
    hits = tuple(Hit(Passage(id, "", ""), score) for id, score in scored)
    return Ranking(Question(question, ""), hits)


def written(*rankings: Ranking) -> str:
    stream = io.StringIO()
    write_rankings(rankings, stream, "trec")
    return stream.getvalue()


@pytest.mark.parametrize("name", ["run.txt", "run.txt.gz"])
def test_scores_give_the_order_and_ranks_break_ties(save: Save, name: str) -> None:
    run = """q2 Q0 d 1 5 x
        q1 Q0 b 2 1.5 x
        q1\tQ0\tc\t3\t9\tx

        q2 Q0 e 2 1e1 x
        q1 Q0 a 1 1.5 x\r\n"""
    assert load_rankings(save(run, name)) == [
        ranking("q2", ("e", 10.0), ("d", 5.0)),
        ranking("q1", ("c", 9.0), ("a", 1.5), ("b", 1.5)),
    ]


def test_only_ascii_white_space_separates(save: Save) -> None:
    path = save("q\u2028 Q0 New\u00a0York 1 2 x\n")
    assert load_rankings(path) == [ranking("q\u2028", ("New\u00a0York", 2.0))]


def test_a_run_is_written_with_its_scores() -> None:
    run = written(ranking("q", ("a", 2.5), ("b", -1.0)), ranking("none"))
    assert run == "q Q0 a 1 2.5 jpr\nq Q0 b 2 -1.0 jpr\n"


@pytest.mark.parametrize(
    "scores",
    [(1.0, 1.0, 1.0), (1.0, 3.0, 2.0), (1.0 + 2e-9, 1.0 + 1e-9, 1.0), (1e300, 1e299, 0.0)],
)
def test_scores_that_do_not_fall_for_trec_eval_are_replaced(
    save: Save, scores: tuple[float, ...]
) -> None:
    text = written(ranking("q", *zip("bac", scores, strict=True)))
    assert text == "q Q0 b 1 3.0 jpr\nq Q0 a 2 2.0 jpr\nq Q0 c 3 1.0 jpr\n"
    judged = [ir_measures.Qrel("q", "a", 1)]
    run = [
        ir_measures.ScoredDoc("q", hit.passage.id, hit.score)
        for hit in reversed(load_rankings(save(text))[0].hits)
    ]
    assert ir_measures.calc_aggregate([RR], judged, run) == {RR: pytest.approx(1 / 2)}


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("q Q0 d 1 2", "5 columns instead of 6"),
        ("q Q0 d 1 2 x y", "7 columns instead of 6"),
        ("q Q0 d first 2 x", "the rank should be a whole number, not 'first'"),
        ("q Q0 d 1 high x", "a score should be a finite number, not 'high'"),
        ("q Q0 d 1 nan x", "a score should be a finite number, not 'nan'"),
        ("q Q0 d 1 -inf x", "a score should be a finite number, not '-inf'"),
        ("q Q0 d0 9 2 x", "passage 'd0' comes twice for question 'q'"),
    ],
)
def test_a_broken_line_is_named(save: Save, line: str, says: str) -> None:
    good = "".join(f"q Q0 d{number} {number} 1 x\n" for number in range(6))
    with pytest.raises(FormatError, match=f"run:7: {says}"):
        load_rankings(save(good + line + "\n"))


def test_an_empty_run_is_an_error_even_when_the_format_is_named(save: Save) -> None:
    with pytest.raises(FormatError, match="run: holds no record of format trec"):
        load_rankings(save("\n"), "trec")


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (ranking("who is it", ("a", 1.0)), "id 'who is it'"),
        (ranking("q", ("a\tb", 1.0)), r"id 'a\\tb'"),
        (ranking("q", ("", 1.0)), "id ''"),
        (ranking("q", ("\ud800", 1.0)), r"id .*ud800"),
        (ranking("q", ("a", 1.0), ("a", 0.5)), "question 'q': passage 'a' comes 2 times"),
        (ranking("q", ("a", float("nan"))), "passage 'a' has score nan"),
        (ranking("before"), "two rankings for question 'before'"),
    ],
)
def test_what_a_run_cannot_hold_is_said(bad: Ranking, says: str) -> None:
    with pytest.raises(DataError, match=says):
        written(ranking("before", ("a", 1.0)), bad)
