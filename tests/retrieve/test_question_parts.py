import pytest
from hypothesis import given
from hypothesis import strategies as st

from jpr.retrieve.retrievers import MOST_PARTS, question_parts


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", []),
        ("treasurers", []),
        ("Who? What?", []),
        ("What is on www.example.org/?q=1 today?", []),
        ("Who came first? And who was last", ["Who came first?", "And who was last"]),
        ("Quién ganó? ماذا حدث؟ 誰が来た？ Who lost?", ["Quién ganó?", "ماذا حدث؟", "Who lost?"]),
        ("Who won? Who won?", ["Who won?"]),
    ],
)
def test_parts_by_hand(text: str, parts: list[str]) -> None:
    assert question_parts(text) == parts


@given(st.text(st.sampled_from("ab? "), max_size=80))
def test_parts_are_distinct_pieces_of_the_text_in_order(text: str) -> None:
    parts = question_parts(text)
    assert len(parts) == len(set(parts)) <= MOST_PARTS
    assert all(part in text and part == part.strip() for part in parts)
