import bz2
import gzip
import lzma
import os
import resource
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from jpr.errors import ConfigError, FormatError
from jpr.io.atomic import publish, publish_binary
from jpr.io.checksums import sha256
from jpr.io.json_files import iter_json
from jpr.io.text_files import read_lines

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
    return list(iter_json(path))


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
        ('{\n"a": 1,\n"b" 2}', 3),
        ('[{"a": 1} {"a": 2}]', 1),
        ('[{"a": 1},\n\n{"a": 2}\n{"a": 3}]', 4),
        ('[{"a": 1},\n,{"a": 2}]', 2),
        ('[,{"a": 1}]', 1),
        ('[{"a": 1},\n]', 2),
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


def publish_text(path: Path, text: str = "new") -> None:
    with publish(path) as stream:
        stream.write(text)


def test_a_link_stays_and_what_it_leads_to_is_written(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "target", tmp_path / "link"
    link.symlink_to(target)
    for text in ("there was nothing", "there was a file"):
        publish_text(link, text)
        assert link.is_symlink()
        assert target.read_text() == text
    assert list(target.parent.iterdir()) == [target]


def test_a_pipe_is_written_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        publish_text(pipe)
        assert os.read(reader, 100) == b"new"
    finally:
        os.close(reader)
    assert pipe.is_fifo()


def test_a_folder_or_a_full_device_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot be written: Is a directory$"):
        publish_text(tmp_path)
    full = os.open("/dev/full", os.O_WRONLY)  # not by its name: what goes wrong would replace it
    with pytest.raises(ConfigError, match=rf"/dev/fd/{full}: cannot be written: No space left"):
        publish_text(Path(f"/dev/fd/{full}"))
    os.close(full)


@pytest.mark.parametrize("suffix", PACKERS)
@pytest.mark.parametrize("size", [5_000, 600_000])
def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, suffix: str, size: int) -> None:
    path = tmp_path / f"out{suffix}"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(ConfigError, match="cannot be written: File too large"):
            publish_text(path, os.urandom(size).hex())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []


def test_half_a_character_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    with (
        pytest.raises(ConfigError, match="half a character"),
        publish(tmp_path / "out.txt") as stream,
    ):
        stream.write("\ud800")
    assert not list(tmp_path.iterdir())
