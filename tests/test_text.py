import time

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from jpr.errors import DataError
from jpr.text import AnswerMatcher, answer_spans, fold, is_weak, normalize_answer, tokens
from jpr.types import Question

# Letters that decompose, Greek's two small sigmas, marks, digits, signs, and odd white space.
TEXT = st.text("abAé\u0301sσςΣ9'.- \t\n\u00a0\u200b\u2028İ", max_size=20)


def finds(text: str, *answers: str, title: str = "", strict: bool = False) -> tuple[int, ...]:
    question = Question("q", "?", tuple((answer,) for answer in answers))
    return AnswerMatcher(question, strict=strict).found_in(title, text)


@pytest.mark.parametrize(
    ("text", "answer", "found"),
    [
        ("It starred Glenn Quinn as Mark.", "glenn quinn", True),
        ("Quinn, Glenn", "Glenn Quinn", False),  # order counts
        ("a tea party", "art", False),  # whole tokens only
        ("in 1997", "9", False),
        ("Beyonce\u0301 sang", "Beyoncé", True),  # NFD: two spellings of é
        ("Beyonce sang", "Beyoncé", False),  # an accent is not dropped
        ("the U.S. Navy", "US", False),  # punctuation is a token
        ("the U.S. Navy", "U. S.", True),  # spaces between tokens do not matter
        ("the Who played", "The Who", True),
        ("who played", "The Who", False),  # articles count
        ("New\u00a0York", "new york", True),  # any separator
        ("New\nYork", "new york", True),
        ("NewYork", "new york", False),
        ("rock-and-roll", "rock and roll", False),  # the hyphens are tokens
        ("rock-and-roll", "rock - and - roll", True),
        ("snake_case", "case", True),  # "_" is a sign, not a letter
        ("ΑΣ.Β", "ας", True),  # final and inner sigma are one letter
        ("anything", "", False),
        ("anything", " \n", False),
        ("", "anything", False),
    ],
)
def test_answer_is_found_by_its_tokens(text: str, answer: str, found: bool) -> None:
    assert bool(answer_spans(text, answer)) is found
    assert finds(text, answer) == ((0,) if found else ())


def has_answer(text: str, answer: str) -> bool:
    """DPR's published rule, token list against token list; an empty answer matches nothing."""
    splitter = regex.compile(r"[\p{L}\p{N}\p{M}]+|[^\p{Z}\p{C}]")
    words, needle = splitter.findall(fold(text)), splitter.findall(fold(answer))
    return bool(needle) and any(
        words[i : i + len(needle)] == needle for i in range(len(words) - len(needle) + 1)
    )


@given(TEXT, TEXT)
def test_both_ways_to_search_agree_with_the_token_lists(text: str, answer: str) -> None:
    expected = has_answer(text, answer)
    assert bool(answer_spans(text, answer)) is expected
    assert bool(finds(text, answer)) is expected


@given(TEXT, TEXT, TEXT)
def test_an_answer_between_separators_is_always_found(before: str, answer: str, after: str) -> None:
    assert finds(f"{before} {answer} {after}", answer) == ((0,) if tokens(answer) else ())


def test_title_and_text_are_searched_apart() -> None:
    assert finds("Quinn was an actor.", "Glenn Quinn", "Glenn", title="Glenn") == (1,)


def test_any_alias_finds_its_answer_and_answers_keep_their_index() -> None:
    question = Question("q", "?", (("x",), ("NYC", "New York"), ("york",)))
    assert AnswerMatcher(question).found_in("", "in New York") == (1, 2)


def test_strict_ignores_lone_numerals_and_stop_words() -> None:
    text = "No one knew that 1997 had 12 months of Monday."
    answers = ("one", "1997", "No.", "12 months", "Monday")
    assert finds(text, *answers) == (0, 1, 3, 4)  # "No." is not "No" + " "
    assert finds(text, *answers, strict=True) == (3, 4)
    assert [is_weak(alias) for alias in ("the", "½", "the one", "!")] == [True, True, False, False]


def test_a_regular_expression_is_one_answer_found_anywhere_in_any_case() -> None:
    question = Question("q", "?", regex=r"new\s?york|roosevelt field")
    matcher = AnswerMatcher(question)
    assert matcher.found_in("", "He left NewYork.") == (0,)
    assert matcher.found_in("Roosevelt Field", "") == (0,)
    assert matcher.found_in("", "He left Boston.") == ()


def test_a_catastrophic_expression_is_given_up_and_reported() -> None:
    matcher = AnswerMatcher(Question("q", "?", regex=r"(a|a|a)+(b|b)*c$"), time_limit=0.05)
    start = time.monotonic()
    assert matcher.found_in("", "a" * 5000 + "!") == ()
    assert matcher.timed_out
    assert time.monotonic() - start < 30


def test_a_broken_expression_names_its_question() -> None:
    with pytest.raises(DataError, match=r"question 'q7'.*not a regular expression"):
        AnswerMatcher(Question("q7", "?", regex="(unclosed"))


@pytest.mark.parametrize(
    ("answer", "normal"),
    [
        ("The Beatles", "beatles"),
        ("  A   tale of  two cities ", "tale of two cities"),
        ("Theatre", "theatre"),  # an article is a whole word
        ("U.S.", "us"),
        ("rock-and-roll", "rockandroll"),
        ("the", ""),
    ],
)
def test_squad_normal_form(answer: str, normal: str) -> None:
    assert normalize_answer(answer) == normal


def test_new_letters_are_letters_both_ways() -> None:
    letter = "\U00031350"  # of Unicode 15, younger than some Pythons' own tables
    assert answer_spans(letter, letter) == [(0, 1)]
    assert finds(letter, letter) == (0,)


def test_a_hopeless_expression_is_given_up_after_three_texts() -> None:
    matcher = AnswerMatcher(Question("q", "?", regex=r"(a|a|a)+(b|b)*c$"), time_limit=0.3)
    start = time.monotonic()
    for _ in range(200):
        matcher.found_in("", "a" * 5000 + "!")
    assert matcher.timed_out
    assert time.monotonic() - start < 30  # not 200 times 0.3 s
