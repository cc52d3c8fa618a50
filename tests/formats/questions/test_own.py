import io
from pathlib import Path

import pytest

from jpr.errors import FormatError
from jpr.formats.questions import load_questions, write_questions
from jpr.types import Question

LINE = (
    '{"id": "1", "question": "Who plays Mark?", "answers": [["Glenn Quinn"], ["Ames McNamara"]]}\n'
)


def write(folder: Path, text: str) -> Path:
    path = folder / "questions.jsonl"
    path.write_text(text, encoding="utf-8")
    return path


def test_an_inner_list_is_one_answer_with_its_spellings(tmp_path: Path) -> None:
    assert load_questions(write(tmp_path, LINE)) == [
        Question("1", "Who plays Mark?", (("Glenn Quinn",), ("Ames McNamara",)))
    ]


def test_blank_aliases_and_answers_without_any_are_dropped(tmp_path: Path) -> None:
    text = '{"id": "1", "question": "?", "answers": [["x", " ", null], [null], []]}\n'
    assert load_questions(write(tmp_path, text))[0].answers == (("x",),)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    questions = [
        Question("a", "café?", (("x", "y"), ("z",)), annotations=((("x",),), (("z",),))),
        Question("b", "How tall?", regex=r"\d+ feet"),
        Question("c", "half a pair: \ud83d", (("\udc00",),)),
    ]
    stream = io.StringIO()
    write_questions(questions, stream)
    assert load_questions(write(tmp_path, stream.getvalue())) == questions


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (LINE + '{"id": "2", "question": "?"}\n', r"jsonl:2: key 'answers' is missing"),
        (LINE + '{"id": "2", "question": "?", "answers": ["x"]}\n', r"jsonl:2: each answer"),
        (
            LINE + '{"id": null, "question": "?", "answers": []}\n',
            r"jsonl:2: 'id' should be a string",
        ),
        (
            LINE + '{"id": "2", "question": "?", "answers": [], "annotations": [["x"]]}\n',
            r"jsonl:2: each answer",
        ),
        (
            LINE + '{"id": "2", "question": "?", "answers": [], "regex": ["x"]}\n',
            r"jsonl:2: 'regex' should be a string",
        ),
        (LINE + LINE, r"jsonl:2: id '1' was used before"),
        (LINE * 0 + "\n\n", r"jsonl: the file is empty"),
        (LINE + '{"id": "2", "question\n', r"jsonl:2: not valid JSON"),
    ],
)
def test_a_broken_file_is_named_with_its_line(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(FormatError, match=says):
        load_questions(write(tmp_path, text))
