from collections.abc import Callable
from pathlib import Path

import pytest

from jpr.errors import FormatError
from jpr.formats.runs.predictions import load_predictions
from jpr.types import Prediction

Save = Callable[..., Path]


AMBIGQA = '{"-66": [{"question": "when first?", "answer": "1624"}], "b": ["x", "y"], "c": "z"}'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"id": 1, "answers": ["x", {"text": "y", "from": 3}]}\n', [("1", "x", "y")]),
        ('{"id": "q", "answers": []}\n', [("q",)]),
        (AMBIGQA, [("-66", "1624"), ("b", "x", "y"), ("c", "z")]),
        ('{"-66": [],\n "b": []}', [("-66",), ("b",)]),
        ('{"question": "who", "prediction": "x"}\n', [("who", "x")]),
        ('{"id": "7", "question": "who", "prediction": ["x", "y"]}\n', [("7", "x", "y")]),
    ],
)
@pytest.mark.parametrize("name", ["answers", "answers.gz"])
def test_each_form_is_recognized(
    save: Save, text: str, name: str, expected: list[tuple[str, ...]]
) -> None:
    predictions = [Prediction(id, tuple(answers)) for id, *answers in expected]
    assert load_predictions(save(text, name)) == predictions


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "file: the file is empty"),
        ('{"id": "1", "answers": ["x"]}\n{"id": "1", "answers": []}\n', "file:2: id '1' was used"),
        ('{"id": "1", "answers": ["x"]}\n{"answers": []}\n', "file:2: key 'question' is missing"),
        ('{"id": "1", "answers": ["x"]}\n{"id": "2"}\n', "file:2: key 'answers' is missing"),
        ('{"id": "1", "answers": ["x"]}\n{"id": "2", "answers": [4]}\n', "file:2: .*, not 4"),
        ('{"id": "1", "answers": ["x"]}\n[]\n', "file:2: a JSON object is expected"),
        ('{"id": "1", "answers": ["x"]}\n{"id": {}, "answers": []}\n', "file:2: 'id' should be"),
        ('{"id": "1", "answers": ["x"]}\n{"id": "2", \n', "file:2: not valid JSON"),
        (b'{"id": "\xe9", "answers": []}\n', "file:1: byte 0xe9 is not UTF-8"),
        ('{"question": "who", "prediction": null}\n', "file:1: .*, not None"),
        ('{"a": [{"answer": 1}]}', "file: question 'a': .*, not {'answer': 1}"),
        ('{"id": "1", "title": "T", "text": "x"}\n', "this command reads"),
        ('{"id": "1", "question": "q", "answers": [["x"]]}\n', "this command reads"),
        ('["x"]', "this command reads"),
    ],
)
def test_a_broken_file_is_named(save: Save, content: str | bytes, says: str) -> None:
    with pytest.raises(FormatError, match=says):
        load_predictions(save(content, "file"))


def test_a_list_beside_a_question_may_be_gold_and_has_to_be_named(save: Save) -> None:
    path = save('{"question": "who", "answers": ["x", {"text": "y"}]}\n')
    with pytest.raises(FormatError, match="this command reads"):
        load_predictions(path)
    assert load_predictions(path, "answers") == [Prediction("who", ("x", "y"))]


def test_a_submission_is_an_object_of_answers(save: Save) -> None:
    with pytest.raises(FormatError, match=r"question 'b': .*, not \['y'\]"):
        load_predictions(save('{"a": ["x"], "b": [["y"]]}'), "ambigqa")
    with pytest.raises(FormatError, match="a JSON object is expected"):
        load_predictions(save('["x"]'), "ambigqa")
