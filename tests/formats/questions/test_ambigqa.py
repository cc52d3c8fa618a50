import json
from pathlib import Path

import pytest

from jpr.errors import FormatError
from jpr.formats.questions import load_questions
from jpr.types import Question


def single(*aliases: str) -> dict[str, object]:
    return {"type": "singleAnswer", "answer": list(aliases)}


def pairs(*answers: list[str]) -> dict[str, object]:
    several = [{"question": "Which one?", "answer": aliases} for aliases in answers]
    return {"type": "multipleQAs", "qaPairs": several}


def read(folder: Path, *annotations: object) -> Question:
    path = folder / "dev_light.json"
    record = {"id": "1", "question": "When did it open?", "annotations": annotations}
    path.write_text(json.dumps([record]), encoding="utf-8")
    return load_questions(path)[0]


def test_annotators_stay_apart_and_their_answers_unite(tmp_path: Path) -> None:
    question = read(tmp_path, single("1901", "May 1901"), pairs(["in May 1901", "1901."], ["1950"]))
    assert question.answers == (("1901", "May 1901", "in May 1901", "1901."), ("1950",))
    assert question.annotations == (
        (("1901", "May 1901"),),
        (("in May 1901", "1901."), ("1950",)),
    )


def test_pairs_with_one_answer_are_one_to_retrieve_and_two_to_score(tmp_path: Path) -> None:
    question = read(tmp_path, pairs(["18"], ["18"]))
    assert question.answers == (("18",),)
    assert question.annotations == ((("18",), ("18",)),)


def test_blank_answers_are_dropped(tmp_path: Path) -> None:
    question = read(tmp_path, pairs(["1901", " "], [""], ["1950"]))
    assert question.answers == (("1901",), ("1950",))


def test_the_line_of_a_broken_record_is_named(tmp_path: Path) -> None:
    path = tmp_path / "dev_light.json"
    good = {"id": "1", "question": "?", "annotations": [single("x")]}
    bad: dict[str, object] = {"id": "2", "question": None, "annotations": []}
    path.write_text(f"[{json.dumps(good)},\n{json.dumps(bad)}\n]\n", encoding="utf-8")
    with pytest.raises(FormatError, match=r"dev_light.json:2: 'question' should be a string"):
        load_questions(path)
