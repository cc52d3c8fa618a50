"""Two processes on one index: one writes, and who reads meanwhile sees the old or the new."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jpr.io.locks import temporary_folder
from jpr.retrieve.index import Index, build_index
from tests.retrieve.toy import WordEncoder, passages

CHANGES = """
import sys
from pathlib import Path
from tests.retrieve.toy import WordEncoder, passages
from jpr.retrieve.index import add_to_index, build_index, remove_from_index
folder = Path(sys.argv[1])
print("started", flush=True)
for _ in range(3):
    add_to_index(passages(150)[100:], folder, source="b", encoder=WordEncoder())
    remove_from_index([passage.id for passage in passages(150)[100:]], folder)
    build_index(passages(100), folder, source="c", encoder=WordEncoder())
"""
BUILD = """
import sys
from pathlib import Path
from tests.retrieve.toy import WordEncoder, passages
from jpr.errors import ConfigError
from jpr.retrieve.index import build_index
try:
    build_index(passages(2000), Path(sys.argv[1]), source="b", encoder=WordEncoder())
except ConfigError as error:
    print(error)
"""


def ids(index: Index) -> tuple[set[str], int, int]:
    """Return what an index holds by its store, by its words and by its vectors."""
    held = {passage.id for passage in index.store}
    near = index.search_dense(WordEncoder().encode_questions(["x"]), 10_000)[0]
    assert {index.store[row].id for row, _ in near} == held
    return held, len(index.store), index.manifest.passages


def test_a_reader_sees_the_old_or_the_new(tmp_path: Path) -> None:
    build_index(passages(100), tmp_path, source="a", encoder=WordEncoder())
    first = Index(tmp_path)
    old = {passage.id for passage in passages(100)}
    both = old | {passage.id for passage in passages(150)}
    seen = set()
    with subprocess.Popen([sys.executable, "-c", CHANGES, str(tmp_path)]) as process:
        while process.poll() is None:
            held, stored, counted = ids(Index(tmp_path))
            assert held in (old, both)
            assert stored == counted == len(held)
            assert ids(first) == (old, 100, 100)  # what is open stays as it was
            seen.add(stored)
        assert process.returncode == 0
    assert 100 in seen <= {100, 150}


def test_of_several_builders_one_wins_and_the_others_are_reported(tmp_path: Path) -> None:
    command = [sys.executable, "-c", BUILD, str(tmp_path)]
    rivals = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    said = [rival.communicate()[0].strip() for rival in rivals]
    assert {rival.returncode for rival in rivals} == {0}
    assert "" in said
    message = f"{tmp_path}: another process is writing it; wait for it"
    assert set(said) <= {"", message}
    assert len(ids(Index(tmp_path))[0]) == 2000
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == [
        (tmp_path / "CURRENT").read_text().strip()
    ]


KEEPS = """
from jpr.io.locks import temporary_folder
with temporary_folder("jpr-test-") as folder:
    (folder / "file").touch()
    print(folder, flush=True)
    input()
"""


def test_what_a_killed_process_left_is_removed_and_not_what_a_living_one_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    other = tmp_path / "jpr-test-other"  # nobody's that we know of, and its lock leads elsewhere
    other.mkdir()
    (tmp_path / "precious").write_text("precious", encoding="utf-8")
    (other / "lock").symlink_to(tmp_path / "precious")
    with subprocess.Popen(
        [sys.executable, "-c", KEEPS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        text=True,
    ) as process:
        assert process.stdout
        left = Path(process.stdout.readline().strip())
        with temporary_folder("jpr-test-") as own:
            assert set(tmp_path.iterdir()) - {tmp_path / "precious"} == {own, left, other}
        process.kill()
    assert (left / "file").exists()
    with temporary_folder("jpr-test-") as own:
        assert not left.exists()
        assert own.exists()
    assert set(tmp_path.iterdir()) == {other, tmp_path / "precious"}
    assert (tmp_path / "precious").read_text(encoding="utf-8") == "precious"
