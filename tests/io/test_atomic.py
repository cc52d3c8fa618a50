import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from jpr.errors import ConfigError
from jpr.io.atomic import publish, publish_binary, publish_folder, sync_folder
from jpr.io.checksums import sha256
from jpr.io.text_files import read_lines
from tests.io.packers import PACKERS


def lines_of(path: Path) -> list[str]:
    return [line for _, line in read_lines(path)]


@pytest.mark.parametrize("suffix", PACKERS)
def test_what_is_published_is_compressed_as_its_name_says(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"file{suffix}"
    with publish(path) as stream:
        stream.write("é\nü\n")
    assert lines_of(path) == ["é", "ü"]
    assert path.read_bytes().startswith(PACKERS[suffix](b"\xc3\xa9")[:2])


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


def test_a_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    with (
        pytest.raises(ConfigError, match="No such file"),
        publish_folder(tmp_path / "a" / "b") as made,
    ):
        (made / "nowhere" / "x").write_text("x")
    assert list((tmp_path / "a").iterdir()) == []
    with publish_folder(tmp_path / "a" / "b") as made:
        (made / "all").write_text("x")
        assert not (tmp_path / "a" / "b").exists()
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]
    assert (tmp_path / "a" / "b" / "all").read_text() == "x"
    with pytest.raises(ConfigError, match="already"), publish_folder(tmp_path / "a" / "b"):
        pass
    (tmp_path / "file").write_text("x")
    with (
        pytest.raises(ConfigError, match="cannot be written"),
        publish_folder(tmp_path / "file" / "b"),
    ):
        pass


def test_a_folder_is_replaced_when_the_new_one_is_complete(tmp_path: Path) -> None:
    folder = tmp_path / "b"
    for content in ("old", "new"):
        with publish_folder(folder, replace=True) as made:
            (made / content).touch()
    with (
        pytest.raises(ConfigError, match="No such file"),
        publish_folder(folder, replace=True) as m,
    ):
        (m / "nowhere" / "x").touch()
    assert [path.name for path in tmp_path.rglob("*")] == ["b", "new"]


def test_a_kill_between_the_two_renames_loses_nothing(tmp_path: Path) -> None:
    (tmp_path / ".b.new" / "old").mkdir(parents=True)
    (tmp_path / ".b.new" / "old" / "text").touch()
    with pytest.raises(KeyboardInterrupt), publish_folder(tmp_path / "b", replace=True):
        raise KeyboardInterrupt
    assert [path.name for path in tmp_path.rglob("*")] == ["b", "text"]


def test_the_folder_is_flushed_after_the_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[list[str]] = []
    fsync = os.fsync

    def flush(handle: int) -> None:
        fsync(handle)
        if os.path.samestat(os.fstat(handle), tmp_path.stat()):
            flushed.append([path.name for path in tmp_path.iterdir() if path.name == "out"])

    monkeypatch.setattr(os, "fsync", flush)
    publish_text(tmp_path / "out")
    assert flushed == [["out"]]
    (tmp_path / "out").unlink()
    with publish_folder(tmp_path / "out"):
        pass
    assert flushed[1:] == [["out"]]


def test_a_folder_is_flushed_with_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[str] = []
    fsync = os.fsync

    def flush(handle: int) -> None:
        fsync(handle)
        paths = (path for path in (tmp_path, *tmp_path.rglob("*")))
        flushed.extend(p.name for p in paths if os.path.samestat(os.fstat(handle), p.stat()))

    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "file").touch()
    monkeypatch.setattr(os, "fsync", flush)
    sync_folder(tmp_path / "new")
    assert flushed == ["file", "new", tmp_path.name]


def test_what_a_killed_process_left_the_next_takes_over(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", _KILLED, tmp_path / "b"]) as killed:
        assert killed.wait() == -signal.SIGKILL
    left = sorted(path.name for path in tmp_path.rglob("*"))
    assert left == [".b.new", "half", "lock", "made"]
    with publish_folder(tmp_path / "b") as made:
        assert list(made.iterdir()) == []
        with pytest.raises(ConfigError, match="another process"), publish_folder(tmp_path / "b"):
            pass
    assert [path.name for path in tmp_path.rglob("*")] == ["b"]


_KILLED = """
import os, signal, sys
from pathlib import Path
from jpr.io.atomic import publish_folder
with publish_folder(Path(sys.argv[1])) as made:
    (made / "half").touch()
    os.kill(os.getpid(), signal.SIGKILL)
"""
