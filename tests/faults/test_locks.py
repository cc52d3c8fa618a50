"""One holder at a time: processes that take, remove and retake the same locks."""

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

import jpr
from jpr.errors import ConfigError
from jpr.io.atomic import publish, publish_folder
from jpr.io.locks import locked
from jpr.io.resume import write_resumably
from jpr.retrieve.versions import next_version

PRELUDE = """
import os, shutil, sys, time
from contextlib import suppress
from pathlib import Path
from jpr.errors import ConfigError
home, end = Path(sys.argv[1]), time.monotonic() + float(sys.argv[2])
target, marker = home / "target", home / "marker"
TEXT = "".join(f"{n}\\n" for n in range(20))

def alone():
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        print("two writers", flush=True)

def write(text):
    alone()
    for line in text.splitlines(keepends=True):
        yield line
    marker.unlink(missing_ok=True)
"""
WRITERS = {
    "resumable output": """
from jpr.io.resume import write_resumably
def use():
    write_resumably([target], "", lambda done: list(write(TEXT))[done:], lambda line: [line])
""",
    "a file": """
from jpr.io.atomic import publish
def use():
    with publish(target) as stream:
        stream.writelines(write(TEXT))
""",
    "a file that a library replaces": """
from jpr.io.atomic import publish_path
def use():
    with publish_path(target) as made:
        other = made.with_name(f"{made.name}{os.getpid()}")
        other.write_text("".join(write(TEXT)))
        other.rename(made)
        time.sleep(0.001)
""",
    "a folder": """
from jpr.io.atomic import publish_folder
def use():
    with publish_folder(target.with_name("folder"), replace=True) as made:
        (made / "text").write_text("".join(write(TEXT)))
        assert [path.name for path in made.iterdir()] == ["text"]
""",
    "columns": """
import numpy as np
from jpr.train.columns import open_columns
def use():
    with open_columns(home / "columns", "key", {"a": np.uint8}) as columns:
        alone()
        columns.append("a", [1, 2, 3])
        columns.commit(1)
        assert list(columns["a"]) == [1, 2, 3] * columns.done
        marker.unlink()
""",
    "an index": """
from jpr.retrieve.versions import next_version
def use():
    with next_version(home / "index") as (_, version):
        (version / "text").write_text("".join(write(TEXT)))
""",
}
LOOP = """
done = 0
while time.monotonic() < end:
    with suppress(ConfigError):
        use()
        done += 1
    if target.exists() and target.read_text() != TEXT:
        print("incomplete", flush=True)
print(done)
"""


@pytest.mark.parametrize("name", WRITERS)
def test_writers_never_work_at_the_same_time(tmp_path: Path, name: str) -> None:
    code = PRELUDE + WRITERS[name] + LOOP
    command = [sys.executable, "-c", code, str(tmp_path), os.environ.get("JPR_LOCKS", "1")]
    writers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    printed = [writer.communicate()[0].split("\n") for writer in writers]
    assert [writer.returncode for writer in writers] == [0] * 4
    assert {line for lines in printed for line in lines[:-2]} == set()
    assert sum(int(lines[-2]) for lines in printed) > 0
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_the_lock_of_a_removed_file_is_not_taken(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from jpr.io.locks import locked\n"
        "print('waits', flush=True)\n"
        "with locked(Path(sys.argv[1]), wait=True) as lock: print(lock.is_held())"
    )
    file = tmp_path / "new" / "lock"
    command = [sys.executable, "-c", code, str(file)]
    with locked(file) as lock:
        waiting = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert waiting.stdout
        assert waiting.stdout.readline() == "waits\n"
        lock.remove_folder()
    assert waiting.communicate()[0] == "True\n"
    assert list(tmp_path.rglob("*")) == [file.parent, file]


def test_a_lock_does_not_follow_a_link_nor_empty_a_file(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "lock").symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="symbolic"), locked(tmp_path / "lock"):
        pass
    with locked(tmp_path / "precious"), pytest.raises(BlockingIOError):
        locked(tmp_path / "precious").__enter__()
    assert (tmp_path / "precious").read_text() == "precious"


@pytest.mark.parametrize("publish_at", [publish, publish_folder, next_version])
def test_nothing_is_published_after_its_lock_is_lost(
    tmp_path: Path, publish_at: Callable[[Path], AbstractContextManager[object]]
) -> None:
    """A person removes the lock file, and another process takes the lock."""

    def replace_lock() -> Path:
        (lock,) = [path for path in tmp_path.rglob("*") if path.name.endswith("lock")]
        lock.unlink()
        lock.write_text("of another process")
        return lock

    with pytest.raises(ConfigError, match="another process"), publish_at(tmp_path / "out"):
        lock = replace_lock()
    assert lock.read_text() == "of another process"
    assert not (tmp_path / "out").is_file()
    assert not (tmp_path / "out" / "CURRENT").exists()


def test_no_resumable_output_is_published_after_its_lock_is_lost(tmp_path: Path) -> None:
    def lines(done: int) -> list[str]:
        (tmp_path / ".out.lock").unlink()
        return ["a\n"][done:]

    with pytest.raises(ConfigError, match="another process"):
        write_resumably([tmp_path / "out"], "", lines, lambda line: [line])
    assert [path.name for path in tmp_path.iterdir()] == [".out.part"]


def test_there_is_one_implementation() -> None:
    sources = Path(jpr.__file__).parent.rglob("*.py")
    assert [path.name for path in sources if "flock(" in path.read_text()] == ["locks.py"]
