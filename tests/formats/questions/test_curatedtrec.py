from pathlib import Path

import pytest

from jpr.errors import FormatError
from jpr.formats.questions import load_questions


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("How tall?\t9\nWho?\tAda\tBo\n", r":2: 3 columns instead of 2 or 4"),
        ("How tall?\t9\nWho?\n", r":2: 1 columns instead of 2 or 4"),
        ("How tall?\t9\n\nWho?\t \n", r":3: the expression is empty"),
        ('How tall?\t["9"]\nWho?\t[]\n', r":2: the expression is empty"),
        ('How tall?\t["9"]\nWho?\t[["Ada"]]\n', r":2: an answer in 'the second column'"),
        ("1\tfactoid\tHow?\t9\n1\tfactoid\tWho?\tAda\n", r":2: id '1' was used before"),
    ],
)
def test_a_broken_file_is_named_with_its_line(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "CuratedTREC.tsv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(FormatError, match=says):
        load_questions(path)


def test_a_file_of_another_name_can_be_said_to_hold_expressions(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text('{"question": "How tall?", "answer": ["9", "10"]}\n', encoding="utf-8")
    assert load_questions(path)[0].answers == (("9", "10"),)
    assert load_questions(path, "curatedtrec")[0].regex == "9|10"
