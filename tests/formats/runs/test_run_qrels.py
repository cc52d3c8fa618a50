import io
from collections.abc import Callable
from pathlib import Path

import pytest

from jpr.errors import DataError, FormatError
from jpr.formats.runs.trec import Judgement, load_qrels, write_qrels

Save = Callable[..., Path]


JUDGED = [Judgement("1", "2", "d1", 1), Judgement("1", "3", "d1", 0), Judgement("2", "1", "d", -2)]


@pytest.mark.parametrize("name", ["qrels", "qrels.gz"])
def test_the_second_column_is_the_subtopic(save: Save, name: str) -> None:
    assert load_qrels(save("1 2 d1 1\n\n1\t3\td1\t0\r\n 2 1 d -2\n", name)) == JUDGED


def test_what_is_written_is_read_back(save: Save) -> None:
    stream = io.StringIO()
    write_qrels(JUDGED, stream)
    assert load_qrels(save(stream.getvalue())) == JUDGED


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("1 0 d 1\n1 0 d\n", "qrels:2: 3 columns instead of 4"),
        ("1 0 d 1\n1 Q0 d 1 2 x\n", "qrels:2: 6 columns instead of 4"),
        ("1 0 d 0.5\n", "qrels:1: the relevance should be a whole number, not '0.5'"),
        ("1 0 d 1\n1 1 d 1\n1 0 d 0\n", "qrels:3: .*'1 0 d'"),
        (b"1 0 \xff 1\n", "qrels:1: byte 0xff is not UTF-8"),
        ("\n", "qrels: holds no record"),
    ],
)
def test_a_broken_file_is_named(save: Save, content: str | bytes, says: str) -> None:
    with pytest.raises(FormatError, match=says):
        load_qrels(save(content, "qrels"))


def test_an_id_with_white_space_is_refused() -> None:
    with pytest.raises(DataError, match="'New York'"):
        write_qrels([Judgement("1", "2", "New York", 1)], io.StringIO())
