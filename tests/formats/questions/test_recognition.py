import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from jpr.cli.files import recognize
from jpr.errors import FormatError
from jpr.formats.format import head_of
from jpr.formats.questions import FORMATS, load_questions

from .sample import Sample
from .samples import NOT_QUESTIONS, SAMPLES

every_sample = pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)


@every_sample
def test_a_file_is_recognised_by_its_own_format_alone(sample: Sample, tmp_path: Path) -> None:
    head = head_of(sample.write(tmp_path))
    assert [format.name for format in FORMATS if format.sniff(head)] == [sample.format]


@every_sample
def test_no_format_of_another_kind_claims_it(sample: Sample, tmp_path: Path) -> None:
    kind, format = recognize(sample.write(tmp_path))
    assert (kind.name, format.name) == ("questions", sample.format)


@every_sample
def test_a_file_is_read_as_what_it_says(sample: Sample, tmp_path: Path) -> None:
    assert load_questions(sample.write(tmp_path)) == list(sample.questions)


def test_every_format_has_a_sample() -> None:
    assert {sample.format for sample in SAMPLES} | {"asqa-train", "asqa-dev"} == {
        format.name for format in FORMATS
    }


@pytest.mark.parametrize("name", NOT_QUESTIONS)
def test_a_file_of_another_kind_is_left_alone(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(NOT_QUESTIONS[name], encoding="utf-8")
    assert [format.name for format in FORMATS if format.sniff(head_of(path))] == []


def test_a_folder_is_no_question_file(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="not recognized"):
        load_questions(tmp_path)


@every_sample
@pytest.mark.parametrize(
    "compress",
    [gzip.compress, lzma.compress, bz2.compress, zstandard.ZstdCompressor().compress],
    ids=["gz", "xz", "bz2", "zst"],
)
def test_compression_changes_nothing(
    sample: Sample, compress: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    path = tmp_path / sample.name
    path.write_bytes(compress(sample.text.encode()))
    assert load_questions(path) == list(sample.questions)
