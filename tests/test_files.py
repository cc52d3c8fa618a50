import bz2
import gzip
import lzma
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from jpr.errors import ConfigError, FormatError
from jpr.files import publish, publish_binary, read_lines, sha256
from jpr.jsonfile import read_json

PACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".txt": bytes,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".bz2": bz2.compress,
    ".zst": zstandard.ZstdCompressor().compress,
}


def lines_of(path: Path) -> list[str]:
    return [line for _, line in read_lines(path)]


def values_of(path: Path, text: str) -> list[tuple[int, object]]:
    path.write_text(text, encoding="utf-8")
    return list(read_json(path))


@pytest.mark.parametrize("suffix", PACKERS)
def test_compressed_text_is_known_by_its_first_bytes(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / "no-suffix"
    path.write_bytes(PACKERS[suffix]("é\nü\n".encode()))
    assert list(read_lines(path)) == [(1, "é"), (2, "ü")]


@pytest.mark.parametrize("suffix", PACKERS)
def test_what_is_published_is_compressed_as_its_name_says(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"file{suffix}"
    with publish(path) as stream:
        stream.write("é\nü\n")
    assert lines_of(path) == ["é", "ü"]
    assert path.read_bytes().startswith(PACKERS[suffix](b"\xc3\xa9")[:2])


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
    with pytest.raises(FormatError, match="no regular file"):
        lines_of(tmp_path)


def test_json_lines_arrays_and_documents_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    assert values_of(path, '{"a": 1}\n\n{"a": 2}\n') == [(1, {"a": 1}), (3, {"a": 2})]
    assert values_of(path, '[{"a": 1},\n {"a": [2,\n 3]}, 4]') == [
        (1, {"a": 1}),
        (2, {"a": [2, 3]}),
        (3, 4),
    ]
    assert values_of(path, '{\n "a":\n 1\n}\n') == [(1, {"a": 1})]
    assert values_of(path, "[]") == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)


@given(st.lists(JSON, max_size=6), st.sampled_from([None, 0, 2]))
def test_an_array_is_streamed_item_by_item_however_it_is_laid_out(
    tmp_path_factory: pytest.TempPathFactory, items: list[object], indent: int | None
) -> None:
    import json

    path = tmp_path_factory.mktemp("array") / "file.json"
    text = json.dumps(items, indent=indent, ensure_ascii=False)
    assert [value for _, value in values_of(path, text)] == items


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{"a": 1}\n' * 6 + '{"a": 1,}\n', 7),
        ('{"a": 1}\n' * 6 + '{"a": \n', 7),
        ("[" + '{"a": 1},\n' * 6 + '{"a" 1}]', 7),
        ("[" + '{"a": 1},\n' * 6, 6),  # never closed
        ('{\n"a": 1,\n}', 3),
        ("not json\n", 1),
        ('{"id7": 1, "id7": 2}', 1),  # a repeated key would vanish
    ],
)
def test_bad_json_is_named_with_its_line(tmp_path: Path, text: str, line: int) -> None:
    with pytest.raises(FormatError, match=rf"bad\.json:{line}: not valid JSON"):
        values_of(tmp_path / "bad.json", text)


def test_nothing_is_published_when_writing_fails(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    path.write_text("old")

    def fail() -> None:
        with publish(path) as stream:
            stream.write("new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert [p.name for p in tmp_path.iterdir()] == ["out.txt"]
    assert path.read_text() == "old"


def test_a_published_file_can_be_read_by_others(tmp_path: Path) -> None:
    with publish_binary(tmp_path / "new" / "out") as stream:
        stream.write(b"x")
    plain = tmp_path / "plain"
    plain.write_bytes(b"x")
    assert (tmp_path / "new" / "out").stat().st_mode == plain.stat().st_mode
    assert sha256(tmp_path / "new" / "out") == sha256(plain)


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(ConfigError, match="file/out: cannot be written"),
        publish(tmp_path / "file" / "out"),
    ):
        pass
