import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jpr.text import compile_pattern
from recipes.trec.scan import Matches, Scanner
from tests.recipes.trec.patterns import patterns, texts

MOST = 3


def scan(patterns: list[str], texts: list[str]) -> dict[int, Matches]:
    return Scanner(patterns, most=MOST, time_limit=1.0).scan(texts)


def plain(pattern: str, texts: list[str]) -> Matches:
    """Run one expression on every text."""
    found = [
        match.group().lower()
        for text in texts
        for match in compile_pattern(pattern).finditer(unicodedata.normalize("NFD", text))
    ]
    strings = tuple(dict.fromkeys(filter(None, found)))
    return Matches(too_many=True) if len(strings) > MOST else Matches(strings)


@settings(deadline=None)
@given(st.lists(patterns, min_size=1, max_size=4), st.lists(texts, max_size=6))
@example(["sik"], ["SIK", "ſiK", "sık"])  # lower-cased these are three
@example(["I"], ["i", "ı"])
@example([r"a\sb"], ["a\tb", "a b"])
@example(["^^a$$|b"], ["a", "b\na"])
@example(["^a$"], ["b\na\nc"])
@example(["a$\\s*^b"], ["a\nb"])
def test_all_that_running_every_expression_finds(patterns: list[str], texts: list[str]) -> None:
    patterns = [unicodedata.normalize("NFD", pattern) for pattern in patterns]
    expected = {i: plain(pattern, texts) for i, pattern in enumerate(patterns)}
    assert scan(patterns, texts) == {
        i: found for i, found in expected.items() if found != Matches()
    }


def test_strings_stand_in_the_order_of_the_texts() -> None:
    assert scan(["[a-z]+x"], ["bx ax", "AX", "cx"]) == {0: Matches(("bx", "ax", "cx"))}


def test_more_texts_than_a_block_holds() -> None:
    assert scan(["Oslo|Bergen"], ["-"] * 1500 + ["Oslo"] * 1500 + ["bergen"]) == {
        0: Matches(("oslo", "bergen"))
    }


def test_texts_of_any_length() -> None:
    assert scan(["Oslo|Bergen"], ["-" * 2_000_000 + "Oslo", "", "bergen"]) == {
        0: Matches(("oslo", "bergen"))
    }


def test_characters_that_cannot_be_encoded_do_no_harm() -> None:
    assert scan(["Oslo"], ["\ud800Oslo"]) == {0: Matches(("oslo",))}


def test_an_expression_that_takes_too_long_is_given_up() -> None:
    scanner = Scanner(["(a|aa)+$", "b"], most=MOST, time_limit=0.02)
    assert scanner.scan(["aaa", "a" * 60 + "b", "aa"]) == {
        0: Matches(("aaa",), timed_out=True),
        1: Matches(("b",)),
    }


@pytest.mark.parametrize(
    ("n", "found"), [(3, Matches(("1", "2", "3"))), (4, Matches(too_many=True))]
)
def test_up_to_so_many_are_kept(n: int, found: Matches) -> None:
    assert scan([r"\d"], [str(i + 1) for i in range(n)]) == {0: found}
