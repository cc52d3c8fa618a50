"""How far files have been read, whatever they are compressed with."""

from pathlib import Path

import pytest

from jpr.io.atomic import publish
from jpr.io.text_files import read_lines, watch_reading


@pytest.mark.parametrize("ending", ["", ".gz", ".xz", ".bz2", ".zst"])
def test_bytes_read_grow_to_the_size_of_the_files(tmp_path: Path, ending: str) -> None:
    files = [tmp_path / f"{name}.txt{ending}" for name in "ab"]
    for i, file in enumerate(files):
        with publish(file) as stream:
            stream.writelines(f"{i} {number * 7919 % 100_003}\n" for number in range(150_000))
    sizes = [file.stat().st_size for file in files]
    with watch_reading() as reading:
        assert reading.bytes == 0
        list(read_lines(files[0]))[:1]  # opened twice, as for recognising it, it counts once
        lines = read_lines(files[0])
        next(lines)
        assert 0 < reading.bytes <= sizes[0]
        for _ in lines:
            pass
        assert reading.bytes == sizes[0]
        for _ in read_lines(files[1]):
            pass
    assert reading.bytes == sum(sizes)


def test_nobody_watches_outside(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x\n")
    with watch_reading() as reading:
        pass
    list(read_lines(tmp_path / "a"))
    assert reading.bytes == 0
