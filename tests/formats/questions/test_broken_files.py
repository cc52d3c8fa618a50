import json
from pathlib import Path

import pytest

from jpr.errors import FormatError
from jpr.formats.questions import load_questions
from tests.damage import damaged

from .sample import Sample
from .samples import SAMPLES

every_sample = pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
JSON = [sample for sample in SAMPLES if sample.text[0] in "{["]
JSON_LINES = [sample for sample in SAMPLES if sample.name.endswith((".jsonl", ".txt"))]
WITH_IDS = [sample for sample in SAMPLES if sample.questions[0].id != "0"]


@pytest.mark.parametrize("sample", JSON, ids=lambda sample: sample.name)
def test_a_wrong_part_is_explained_or_does_no_harm(sample: Sample, tmp_path: Path) -> None:
    path = tmp_path / sample.name
    explained = 0
    first = sample.text if len(sample.questions) == 1 else sample.text.splitlines()[0]
    for variant in damaged(json.loads(first)):
        path.write_text(json.dumps(variant), encoding="utf-8")
        try:
            load_questions(path, sample.format)
        except FormatError:  # anything else fails the test
            explained += 1
    assert explained


@every_sample
def test_an_empty_file_is_an_error(sample: Sample, tmp_path: Path) -> None:
    path = tmp_path / sample.name
    path.write_text("\n \n")
    with pytest.raises(FormatError, match="empty"):
        load_questions(path)
    with pytest.raises(FormatError, match=r"holds no record|empty"):
        load_questions(path, sample.format)


@every_sample
def test_bytes_that_are_not_utf8_are_an_error(sample: Sample, tmp_path: Path) -> None:
    path = tmp_path / sample.name
    path.write_bytes(sample.text.encode() + b"\xff\n")
    with pytest.raises(FormatError, match="byte 0xff is not UTF-8"):
        load_questions(path, sample.format)


@pytest.mark.parametrize("sample", WITH_IDS, ids=lambda sample: sample.name)
def test_an_id_that_comes_twice_is_an_error(sample: Sample, tmp_path: Path) -> None:
    path = tmp_path / sample.name
    path.write_text(repeated(sample.text), encoding="utf-8")
    with pytest.raises(FormatError, match="was used before"):
        load_questions(path, sample.format)


def repeated(text: str) -> str:
    """Return a file whose questions come twice."""
    if text[0] == "[":
        return json.dumps(json.loads(text) * 2)
    return (json.dumps(json.loads(text)) + "\n") * 2 if text[-1] == "}" else text * 2


@pytest.mark.parametrize("sample", JSON_LINES, ids=lambda sample: sample.name)
def test_bad_json_is_named_by_its_line(sample: Sample, tmp_path: Path) -> None:
    path = tmp_path / sample.name
    record = json.loads(sample.text.splitlines()[0])
    keys = {"id", "qid", "sample_id"} & set(record)
    good = (json.dumps({**record, **dict.fromkeys(keys, f"q{n}")}) for n in range(6))
    path.write_text("\n".join([*good, '{"question": "?",, }']), encoding="utf-8")
    with pytest.raises(FormatError, match=r":7: not valid JSON"):
        load_questions(path, sample.format)
