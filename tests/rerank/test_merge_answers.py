"""Mentions of one answer become one answer; nothing else does."""

import math
from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jpr.rerank.merge_answers import merge_answers, own_passages
from jpr.text import answer_spans
from jpr.types import Answer, Passage, Support

BOTH = Passage("1", "Insulin", "Frederick Banting found it. Banting won a prize for it.")
OTHER = Passage("2", "Charles Banting", "A farmer.")
SPELLINGS = (  # noqa: SIM905  a list literal would fill a page
    "Banting|F. Banting|Frederick Banting|Frederick G. Banting|Charles Banting|C. Banting|"
    "Dr. Banting|UN|U.N.|the UN|United Nations|Uncle Ned|Ned|JFK|John F. Kennedy|Robert Kennedy|"
    "J. Kennedy|Kennedy|WWI|World War I|WWII|World War II|1999|1999–2003|May 5, 1999|5 May 1999|"
    "1,000|1000|1.5|15|-15|dollar|Bahamian dollar|New York|York|New York Times|José|Jose|the|A"
).split("|")


def said(text: str, probability: float, *passages: Passage) -> Answer:
    """An answer with all its mentions in these passages."""
    support = (Support(one, tuple(answer_spans(one.text, text))) for one in passages)
    return Answer(text, math.log(probability), tuple(support))


def texts(answers: Sequence[Answer]) -> list[str]:
    return [answer.text for answer in answers]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["Banting", "F. Banting", "Frederick G. Banting"], ["Frederick G. Banting"]),
        (["UN", "United Nations", "U.N."], ["United Nations"]),
        (["May 5, 1999", "5 May 1999", "1,000", "1000"], ["May 5, 1999", "1,000"]),
        (["dollar", "Bahamian dollar"], ["dollar", "Bahamian dollar"]),
        (["1999", "1999–2003"], ["1999", "1999–2003"]),
        (["New York", "New York Times", "York"], ["New York", "New York Times", "York"]),
        (["WWI", "World War II"], ["WWI", "World War II"]),
        # The surname fits both, and so remains; the initial shows whose name it is.
        (
            ["Frederick Banting", "Charles Banting", "Banting", "C. Banting"],
            ["Frederick Banting", "Charles Banting", "Banting"],
        ),
        (["United Nations", "Uncle Ned", "UN"], ["United Nations", "Uncle Ned", "UN"]),
        (["President Lyndon B. Johnson", "Lyndon Johnson"], ["President Lyndon B. Johnson"]),
        (["Lyndon B. Johnson", "President Lyndon B. Johnson"], ["Lyndon B. Johnson"]),
        # John F. Kennedy keeps his name, although JFK is likelier: Kennedy could be Robert else.
        (
            ["JFK", "Robert Kennedy", "Kennedy", "John F. Kennedy"],
            ["John F. Kennedy", "Robert Kennedy", "Kennedy"],
        ),
        (["the", "A", "–"], []),
    ],
)
def test_what_is_one_answer(given: list[str], expected: list[str]) -> None:
    answers = [said(text, 0.9 * 0.8**at) for at, text in enumerate(given)]
    assert texts(merge_answers(answers)) == expected
    without = [replace(answer, log_prob=math.nan) for answer in answers]
    assert len(merge_answers(without)) == len(expected)


def test_a_surname_belongs_to_the_full_name_in_its_passage() -> None:
    full, farmer = said("Frederick Banting", 0.4, BOTH), said("Charles Banting", 0.3, OTHER)
    first, second = merge_answers([full, farmer, said("Banting", 0.5, BOTH)])
    assert (first.text, second) == ("Frederick Banting", farmer)
    assert math.exp(first.log_prob) == pytest.approx(0.5)
    assert first.support == (Support(BOTH, ((0, 17), (28, 35))),)  # the surname inside counts once


def test_a_surname_that_is_only_mentioned_in_full_names_is_no_answer() -> None:
    names = Passage("1", "", "Frederick Banting and Charles Banting met.")
    full = [said("Frederick Banting", 0.4, names), said("Charles Banting", 0.3, names)]
    assert merge_answers([*full, said("Banting", 0.2, names)]) == tuple(full)
    assert len(merge_answers([*full, said("Banting", 0.5, names)])) == 3  # unless it is likelier


def test_a_short_spelling_more_than_twice_as_likely_is_shown() -> None:
    for probability, shown in ((0.3, "United Nations"), (0.2, "UN")):
        (found,) = merge_answers([said("UN", 0.5), said("United Nations", probability)])
        assert found.text == shown
        assert math.exp(found.log_prob) == pytest.approx(0.5)


def test_spellings_are_as_likely_as_the_most_likely_one() -> None:
    (found,) = merge_answers([said("U.N.", 0.2), said("UN", 0.1), said("United Nations", 0.4)])
    assert math.exp(found.log_prob) == pytest.approx(0.4)


def test_passages_with_a_mention_of_its_own() -> None:
    money = Passage("1", "", "The Bahamian dollar is worth one dollar.")
    inside = Passage("2", "", "He paid a Bahamian dollar.")
    long, short = (said(text, 0.5, money, inside) for text in ("Bahamian dollar", "dollar"))
    assert own_passages(short, [long]) == {money}
    assert own_passages(long, [short]) == {money, inside}
    titled = Answer("dollar", 0.0, (Support(inside, ()),))
    assert own_passages(titled, [long]) == {inside}
    assert own_passages(titled, [titled]) == set()


@st.composite
def answer_lists(draw: st.DrawFn, *, marked: bool = False) -> list[Answer]:
    """Spellings with different probabilities, in passages that consist of such spellings.

    `marked` adds to each a passage by which it is found again.
    """
    pieces = st.lists(st.sampled_from(SPELLINGS), min_size=1, max_size=5).map(", ".join)
    passages = [Passage(str(at), "", draw(pieces)) for at in range(3)]
    names = draw(st.lists(st.sampled_from(SPELLINGS) | st.text(max_size=4), max_size=9))
    ranks = draw(st.permutations(range(len(names))))
    answers = []
    for at, (text, rank) in enumerate(zip(names, ranks, strict=True)):
        found = said(text, 0.9 * 0.75**rank, *(one for one in passages if text in one.text))
        mark = Support(Passage(f"mark {at}", text, ""), ())
        answers.append(replace(found, support=(*found.support, mark)) if marked else found)
    return answers


@given(answer_lists(), st.randoms())
def test_order_does_not_matter_and_merging_again_changes_nothing(
    answers: list[Answer], random: Random
) -> None:
    found = merge_answers(answers)
    assert merge_answers(found) == found
    random.shuffle(answers)
    assert merge_answers(answers) == found
    assert [one.log_prob for one in found] == sorted((one.log_prob for one in found), reverse=True)


@given(answer_lists(marked=True))
def test_members_have_the_same_digits_and_nothing_of_them_is_lost(answers: list[Answer]) -> None:
    found = merge_answers(answers)
    assert len(found) <= len(answers)
    by_mark = {answer.support[-1].passage.id: answer for answer in answers}
    for one in found:
        spans = {support.passage: support.spans for support in one.support}
        members = [by_mark[passage.id] for passage in spans if passage.id in by_mark]
        assert one.text in texts(members)
        assert one.log_prob == max(member.log_prob for member in members)
        assert len({"".join(filter(str.isdecimal, member.text)) for member in members}) == 1
        for support in (support for member in members for support in member.support):
            own = spans[support.passage]
            assert all(any(a <= x and y <= b for a, b in own) for x, y in support.spans)
            assert list(own) == sorted(own)
    marks = [s.passage.id for one in found for s in one.support if s.passage.id in by_mark]
    assert len(marks) == len(set(marks))  # each is in one answer
