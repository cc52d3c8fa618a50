"""One holder at a time: processes that take, remove and retake the same locks."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

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
