import unicodedata

import pytest
import regex
from hypothesis import given, settings

from jpr.text import compile_pattern
from recipes.trec.required import Alternative, alternatives_of, folded, may_match, squeezed
from tests.recipes.trec.patterns import patterns, texts


@pytest.mark.parametrize(
    ("pattern", "ways"),
    [
        ("Oslo", [[{"oslo"}]]),
        ("Oslo|Bergen", [[{"oslo"}], [{"bergen"}]]),
        (r"\b19[01]5s?\b", [[{"1905", "1915", "1905s", "1915s"}]]),
        (r"New\s*York", [[{"new\tyork"}]]),
        ("^nine$", [[{"\nnine\n"}]]),
        ("red.*(blue|green)", [[{"red"}, {"blue", "green"}]]),
        ("(Ada )?Lovelace", [[{"lovelace", "ada lovelace"}]]),
        ("(ab){2}c*d+", [[{"ab"}, {"d"}]]),
        (r"[0-9]+ m\.?", [[{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}, {" m", " m."}]]),
        ("[^a-c]x[!-~]", [[{"x"}]]),
        ("Malmö", [[{"malmo"}]]),  # in NFD the diaeresis is a character of its own
    ],
)
def test_what_a_match_contains(pattern: str, ways: list[list[set[str]]]) -> None:
    found = alternatives_of(unicodedata.normalize("NFD", pattern))
    assert [list(map(set, way.clauses)) for way in found] == ways


@pytest.mark.parametrize(
    "pattern",
    [".*", "a?", r"\d+", "(?i:a)", "a(?=b)", r"(a)\1", "(?:ab){e<=1}", "[a[:digit:]]", "[a--b]"],
)
def test_an_expression_of_which_nothing_is_known_may_match_anywhere(pattern: str) -> None:
    assert may_match([way.needles() for way in alternatives_of(pattern)], "")


def test_only_an_alternative_of_fixed_strings_is_exact() -> None:
    assert alternatives_of("ab?|a+") == (
        Alternative((frozenset({"a", "ab"}),), exact=True),
        Alternative((frozenset({"a"}),), exact=False),
    )


def test_characters_that_ignoring_case_makes_ascii_fold_to_it() -> None:
    every = "".join(map(chr, range(0x110000)))
    for odd in compile_pattern(r"[\x00-\x7f]").findall(every[128:]):
        for same in compile_pattern(regex.escape(odd)).findall(every[:128]):
            assert folded(odd)[0] == folded(same)


def test_no_white_space_is_left() -> None:
    every = "".join(map(chr, range(0x110000)))
    assert not regex.search(r"\s", squeezed(every))


@settings(deadline=None)
@given(patterns, texts)
def test_a_text_with_a_match_contains_what_it_requires(pattern: str, text: str) -> None:
    pattern, text = unicodedata.normalize("NFD", pattern), unicodedata.normalize("NFD", text)
    if compile_pattern(pattern).search(text):
        ways = [way.needles() for way in alternatives_of(pattern)]
        assert may_match(ways, squeezed(folded(text)))
