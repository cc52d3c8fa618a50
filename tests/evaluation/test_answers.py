import pytest

from jpr.evaluation.answers import answer_f1, exact_match, is_multi
from jpr.types import Question

MARK = Question("1", "Mark on Roseanne?", (("Glenn Quinn", "Quinn"), ("Ames McNamara",)))


@pytest.mark.parametrize(
    ("given", "f1"),
    [
        (["Glenn Quinn", "Ames McNamara"], 1.0),
        (
            ["ames mcnamara", "the glenn quinn!"],
            1.0,
        ),  # order, case, articles, punctuation: no matter
        (["Glenn Quinn"], 2 / 3),
        (["Glenn Quinn", "Quinn"], 1 / 2),  # two spellings of one answer: one of them is wrong
        (["Glenn Quinn", "John Goodman"], 1 / 2),
        (["Glenn"], 0.0),  # part of an answer is none
        ([], 0.0),
        ([""], 0.0),
    ],
)
def test_f1_of_two_answers(given: list[str], f1: float) -> None:
    assert answer_f1(MARK, given) == pytest.approx(f1)


def test_the_best_annotator_counts() -> None:
    annotated = Question("1", "?", (("a",), ("b",), ("c",)), ((("a",),), (("b",), ("c",))))
    assert answer_f1(annotated, ["a"]) == 1.0
    assert answer_f1(annotated, ["b", "c"]) == 1.0
    assert answer_f1(annotated, ["a", "b"]) == pytest.approx(2 / 3)  # first annotator: P 1/2, R 1


def test_a_question_is_multi_if_every_annotator_gave_several() -> None:
    one, two = (("a",),), (("b",), ("c",))
    assert is_multi(Question("1", "?", two))
    assert not is_multi(Question("1", "?", one))
    assert is_multi(Question("1", "?", two, (two, two)))
    assert not is_multi(Question("1", "?", two, (one, two)))


def test_exact_match_looks_at_the_first_answer() -> None:
    assert exact_match(MARK, ["quinn"]) == 1
    assert exact_match(MARK, ["John Goodman", "quinn"]) == 0
    assert exact_match(MARK, []) == 0


def test_a_given_answer_can_be_taken_once() -> None:
    twice = Question("1", "?", (("a",), ("a", "b")))  # two pairs of AmbigNQ with one answer
    assert answer_f1(twice, ["a"]) == pytest.approx(2 / 3)
    assert answer_f1(twice, ["a", "A"]) == 1.0
