"""Which strings spell the same answer, by examples that anybody can check."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jpr.rerank.spellings import abbreviation, answer_form, initials, is_longer_name, name_words
from jpr.text import normalize_answer

SAME = [
    ("José Martí", "Jose Marti"),
    ("Spider-Man", "Spider Man"),
    ("Spider-Man", "Spiderman"),
    ("the United Nations", "United Nations"),
    ("Newton's", "Newton"),
    ("Newton’s laws", "Newton laws"),
    ("U.S.", "US"),
    ("U. S.", "US"),
    ("J. R. R. Tolkien", "J.R.R. Tolkien"),
    ("F-16", "F16"),
    ("1,000", "1000"),
    ("1,234,567.5", "1234567.5"),
    ("1999-2003", "1999–2003"),
    ("May 5, 1999", "5 May 1999"),
    ("Sept. 5th", "the 5th of September"),
    ("May 5th, 1999", "5 may 1999"),
]
APART = [
    ("dollar", "Bahamian dollar"),
    ("1999", "1999–2003"),
    ("1999–2003", "19992003"),
    ("1.5", "15"),
    (".5", "5"),
    ("-5", "5"),
    ("1/2", "12"),
    ("May 5", "May 6"),
    ("5 May 1999", "5 May 1998"),
    ("May 1999", "1999"),
    ("1990's", "1990"),
    ("C", "C++"),
    ("C++", "C#"),
    ("hepatitis A", "hepatitis B"),
    ("hepatitis A", "hepatitis"),
    ("A. Smith", "B. Smith"),
    ("мой", "мои"),  # й is a letter
    ("か", "が"),  # as are these, which have the same base
    ("🎸", "🎹"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_the_same_form(one: str, other: str) -> None:
    assert answer_form(one) == answer_form(other) != ""


@pytest.mark.parametrize(("one", "other"), APART)
def test_different_forms(one: str, other: str) -> None:
    assert answer_form(one) != answer_form(other)


@pytest.mark.parametrize("text", ["", "the", "The the", "–", " . ", "\u200b"])
def test_what_has_no_form(text: str) -> None:
    assert answer_form(text) == ""


@given(st.text(alphabet="aAbB éÉ\u0301-–.,'’159/+# themayMAY", max_size=20))
def test_digits_and_case_in_a_form(text: str) -> None:
    def digits(string: str) -> str:
        return "".join(filter(str.isdecimal, string))

    assert digits(answer_form(text)) == digits(text)
    assert answer_form(text.upper()) == answer_form(text.lower())


@given(st.lists(st.sampled_from(["the", "gold", "coin", "rush", "moon"]), min_size=1, max_size=4))
def test_squad_normal_form_is_kept_for_words(words: list[str]) -> None:
    text = " ".join([*words, "stone"])
    assert answer_form(text) == normalize_answer(text).replace(" ", "")


@pytest.mark.parametrize(
    ("long", "short", "expected"),
    [
        ("Frederick G. Banting", "Banting", True),
        ("Frederick G. Banting", "F. Banting", True),
        ("Frederick G. Banting", "F.G. Banting", True),
        ("Frederick G. Banting", "Frederick Banting", True),
        ("F. Banting", "Banting", True),
        ("Banting", "Frederick Banting", False),
        ("Frederick Banting", "Charles Banting", False),
        ("Frederick Banting", "Frederick", False),
        ("Frederick Banting", "C. Banting", False),
        ("John Quincy Adams", "John Adams", False),
        ("John Quincy Adams", "J. Adams", True),
        ("George H. W. Bush", "George W. Bush", False),
        ("John Fitzgerald Kennedy", "John F. Kennedy", True),
        ("Vincent van Gogh", "van Gogh", True),
        ("Alexander Graham Bell", "Dr. Bell", True),
        ("Alexander Graham Bell", "Graham Bell", True),
        ("Robert O'Neill", "O’Neill", True),
        ("Bahamian dollar", "dollar", False),
        ("New York", "York", False),
        ("New York Times", "New York", False),
        ("Ada Moss. Tom Moss", "Moss", False),  # two sentences
        ("House of Lords", "Lords", False),
        ("Boeing 747", "747", False),
    ],
)
def test_longer_names(long: str, short: str, expected: bool) -> None:
    names = name_words(long), name_words(short)
    assert (all(names) and is_longer_name(*names)) == expected


@pytest.mark.parametrize(
    ("short", "long", "expected"),
    [
        ("UN", "United Nations", True),
        ("the U.N.", "the United Nations", True),
        ("U.S.", "United States", True),
        ("JFK", "John F. Kennedy", True),
        ("USN", "U.S. Navy", True),
        ("UCLA", "University of California, Los Angeles", True),
        ("OCD", "obsessive–compulsive disorder", True),
        ("WWII", "World War II", True),
        ("WWI", "World War II", False),
        ("un", "United Nations", False),
        ("UN", "United Nations troops", False),
        ("UN", "U.N.", False),  # the same form
        ("U", "Uppsala", False),
        ("WW", "World War 2", False),
    ],
)
def test_abbreviations(short: str, long: str, expected: bool) -> None:
    assert (abbreviation(short) == initials(long) != "") == expected
