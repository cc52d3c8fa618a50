"""Answers are what passages write, where they write it."""

from hypothesis import given
from hypothesis import strategies as st

from jpr.rerank.answer_text import grounded
from jpr.rerank.merge_answers import merge_answers
from jpr.text import answer_spans
from jpr.types import Answer, Hit, Passage, Support
from tests.test_text import has_answer

NEW = Passage("1", "Roseanne (2018)", "Mark is played by Ames McNamara. McNamara was born in 2007.")
OLD = Passage("2", "Glenn Quinn", "He played Mark in the first nine seasons.")
HITS = [Hit(NEW, 2.0), Hit(OLD, 1.0)]
TEXT = st.text(alphabet="aAbBéÉe\u0301ßΣςσ .,'-1≠\u0338\n東", max_size=30)


def test_an_answer_is_written_as_in_the_first_passage_that_contains_it() -> None:
    answer = grounded("mcnamara", -1.0, HITS)
    assert answer == Answer("McNamara", -1.0, (Support(NEW, ((23, 31), (33, 41))),))


def test_an_answer_in_a_title_has_no_place_in_the_text() -> None:
    answer = grounded("GLENN  quinn", -1.0, HITS)
    assert answer == Answer("Glenn Quinn", -1.0, (Support(OLD, ()),))


def test_what_no_passage_contains_is_no_answer() -> None:
    assert grounded("Mc", 0.0, HITS) is None
    assert grounded("Roseanne Barr", 0.0, HITS) is None
    assert grounded("", 0.0, HITS) is None


def test_one_answer_of_each_normal_form_with_the_support_of_all() -> None:
    first = Answer("the Mark", -1.0, (Support(NEW, ((0, 4),)),))
    again = Answer("Mark", -2.0, (Support(NEW, ((2, 6),)), Support(OLD, ((10, 14),))))
    found = merge_answers([first, Answer("the", -1.5), again, Answer("2007", -3.0)])
    assert [answer.text for answer in found] == ["the Mark", "2007"]
    assert found[0].support == (Support(NEW, ((0, 4), (2, 6))), Support(OLD, ((10, 14),)))


@given(TEXT, TEXT)
def test_spans_are_where_the_text_has_the_answer(text: str, answer: str) -> None:
    spans = answer_spans(text, answer)
    assert bool(spans) == has_answer(text, answer)
    for first, last in spans:
        assert has_answer(text[first:last], answer)


@given(TEXT, st.integers(0, 30), st.integers(1, 10))
def test_every_answer_is_a_piece_of_a_passage(text: str, first: int, size: int) -> None:
    passage = Passage("1", text[:5], text)
    answer = grounded(text[first : first + size], 0.0, [Hit(passage, 1.0)])
    if answer is not None:
        assert answer.text in text or answer.text in passage.title
        assert has_answer(answer.text, text[first : first + size])
