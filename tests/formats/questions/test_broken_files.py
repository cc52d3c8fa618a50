import json
from collections.abc import Callable, Iterable
from pathlib import Path

from jpr.errors import FormatError
from jpr.formats.questions import load_questions
from tests.damage import damaged

from .sample import Sample
from .samples import SAMPLES


def problem(path: Path, content: bytes, format: str | None) -> str:
    """What is wrong with a file; anything but a FormatError fails the test."""
    path.write_bytes(content)
    try:
        load_questions(path, format)
    except FormatError as error:
        return str(error)
    return ""


def unexplained(
    folder: Path, samples: Iterable[Sample], broken: Callable[[str], bytes], fact: str
) -> list[str]:
    """The samples that are read, once they are broken, without an error that names the fact."""
    every = (
        (one.name, problem(folder / one.name, broken(one.text), one.format)) for one in samples
    )
    return [f"{name}: {found}" for name, found in every if fact not in found]


def test_a_wrong_part_is_explained_or_does_no_harm(tmp_path: Path) -> None:
    explained = {}
    for sample in (sample for sample in SAMPLES if sample.text[0] in "{["):
        first = sample.text if len(sample.questions) == 1 else sample.text.splitlines()[0]
        variants = (json.dumps(variant).encode() for variant in damaged(json.loads(first)))
        path = tmp_path / sample.name
        explained[path] = [problem(path, variant, sample.format) for variant in variants]
    assert [path.name for path, problems in explained.items() if not any(problems)] == []


def test_an_empty_file_is_an_error(tmp_path: Path) -> None:
    names = {one.name: problem(tmp_path / one.name, b"\n \n", one.format) for one in SAMPLES}
    assert [name for name, found in names.items() if not found] == []
    assert "empty" in problem(tmp_path / "q.jsonl", b"\n \n", None)


def test_bytes_that_are_not_utf8_are_an_error(tmp_path: Path) -> None:
    assert unexplained(tmp_path, SAMPLES, lambda text: text.encode() + b"\xff\n", "0xff") == []


def test_an_id_that_comes_twice_is_an_error(tmp_path: Path) -> None:
    with_ids = [sample for sample in SAMPLES if sample.questions[0].id != "0"]
    assert unexplained(tmp_path, with_ids, repeated, "was used before") == []


def repeated(text: str) -> bytes:
    """A file with every question twice."""
    if text[0] == "[":
        return json.dumps(json.loads(text) * 2).encode()
    return ((json.dumps(json.loads(text)) + "\n") * 2 if text[-1] == "}" else text * 2).encode()


def test_bad_json_is_named_by_its_line(tmp_path: Path) -> None:
    lines = [sample for sample in SAMPLES if sample.name.endswith((".jsonl", ".txt"))]
    assert unexplained(tmp_path, lines, bad_seventh_line, ":7: not valid JSON") == []


def bad_seventh_line(text: str) -> bytes:
    record = json.loads(text.splitlines()[0])
    keys = {"id", "qid", "sample_id"} & set(record)
    good = (json.dumps({**record, **dict.fromkeys(keys, f"q{n}")}) for n in range(6))
    return "\n".join([*good, '{"question": "?",, }']).encode()
