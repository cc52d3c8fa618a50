import os
from pathlib import Path

import pytest

from jpr.errors import FormatError
from jpr.io.atomic import publish
from jpr.io.text_files import read_lines, watch_reading
from tests.io.packers import PACKERS


def lines_of(path: Path) -> list[str]:
    return [line for _, line in read_lines(path)]


@pytest.mark.parametrize("suffix", PACKERS)
def test_compressed_text_is_known_by_its_first_bytes(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / "no-suffix"
    path.write_bytes(PACKERS[suffix]("é\nü\n".encode()))
    assert list(read_lines(path)) == [(1, "é"), (2, "ü")]


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".bz2", ".zst"])
def test_a_file_cut_short_is_damaged_not_short(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / "cut"
    whole = PACKERS[suffix](os.urandom(5000).hex().encode())
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FormatError, match="cut: compressed data is damaged or cut short"):
        list(read_lines(path))


def test_lines_end_at_newlines_only(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes("\ufeffa\u2028b\x85c\r\n\nlast".encode())
    assert list(read_lines(path)) == [(1, "a\u2028b\x85c"), (2, ""), (3, "last")]


def test_lines_longer_than_a_block(tmp_path: Path) -> None:
    path = tmp_path / "long"
    path.write_text("x" * 3_000_000 + "\ny\n")
    assert [len(line) for line in lines_of(path)] == [3_000_000, 1]


def test_a_byte_that_is_not_utf8_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "latin1"
    path.write_bytes(b"one\ntwo\nthr\xe9e\n")
    with pytest.raises(FormatError, match=r"latin1:3: byte 0xe9 is not UTF-8"):
        lines_of(path)


def test_a_file_that_is_not_there_or_no_file(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="No such file"):
        lines_of(tmp_path / "absent")
    with pytest.raises(FormatError, match="not a regular file"):
        lines_of(tmp_path)


@pytest.mark.parametrize("ending", ["", ".gz", ".xz", ".bz2", ".zst"])
def test_bytes_read_grow_to_the_size_of_the_files(tmp_path: Path, ending: str) -> None:
    files = [tmp_path / f"{name}.txt{ending}" for name in "ab"]
    for i, file in enumerate(files):
        with publish(file) as stream:
            stream.writelines(f"{i} {number * 7919 % 100_003}\n" for number in range(150_000))
    sizes = [file.stat().st_size for file in files]
    with watch_reading() as reading:
        assert sum(reading.values()) == 0
        list(read_lines(files[0]))[:1]  # opened twice, as for recognising it, it counts once
        lines = read_lines(files[0])
        next(lines)
        assert 0 < sum(reading.values()) <= sizes[0]
        for _ in lines:
            pass
        assert sum(reading.values()) == sizes[0]
        for _ in read_lines(files[1]):
            pass
    assert sum(reading.values()) == sum(sizes)


def test_nobody_watches_outside(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x\n")
    with watch_reading() as reading:
        pass
    list(read_lines(tmp_path / "a"))
    assert sum(reading.values()) == 0
