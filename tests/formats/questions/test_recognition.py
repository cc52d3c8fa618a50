import bz2
import gzip
import lzma
from pathlib import Path

import pytest
import zstandard

from jpr.cli.files import all_formats
from jpr.errors import FormatError
from jpr.formats.format import detect, head_of
from jpr.formats.questions import FORMATS, load_questions

from .samples import NOT_QUESTIONS, SAMPLES


def names(path: Path) -> list[str]:
    """The question formats that recognize a file."""
    head = head_of(path)
    return [format.name for format in FORMATS if format.sniff(head)]


def test_a_file_is_recognized_by_its_own_format_alone(tmp_path: Path) -> None:
    paths = [(sample, sample.write(tmp_path)) for sample in SAMPLES]
    found = {path.name: names(path) for _, path in paths}
    assert found == {path.name: [sample.format] for sample, path in paths}
    kinds = all_formats()
    held = {path.name: kinds[detect(path, kinds)].name for _, path in paths}
    assert held == dict.fromkeys(held, "questions")


def test_a_file_is_read_and_compression_changes_nothing(tmp_path: Path) -> None:
    packers = (bytes, gzip.compress, lzma.compress, bz2.compress)
    wrong = []
    for pack in (*packers, zstandard.ZstdCompressor().compress):
        for sample in SAMPLES:
            path = tmp_path / sample.name
            path.write_bytes(pack(sample.text.encode()))
            if load_questions(path) != list(sample.questions):
                wrong.append((sample.name, pack))
    assert not wrong


def test_every_format_has_a_sample() -> None:
    assert {sample.format for sample in SAMPLES} | {"asqa-train", "asqa-dev"} == {
        format.name for format in FORMATS
    }


def test_files_of_other_kinds_are_not_claimed(tmp_path: Path) -> None:
    claimed = {}
    for name, text in NOT_QUESTIONS.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        claimed[name] = names(tmp_path / name)
    assert claimed == {name: [] for name in NOT_QUESTIONS}


def test_a_folder_is_not_a_question_file(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="this command reads"):
        load_questions(tmp_path)
