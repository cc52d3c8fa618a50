"""A disk that is full or read-only: every command says so, and what was there stays as it was."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.small_disk import COMMANDS, READ_ONLY

PRIVATE = ["unshare", "-rm"]
WRITERS = [name for name in COMMANDS if name not in ("search", "train")]


@pytest.fixture(scope="module")
def rows(given: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, object]]:
    home = tmp_path_factory.mktemp("small")
    if not shutil.which("unshare"):
        pytest.skip("unshare is missing: no disk can be made")
    mounting = [*PRIVATE, "mount", "-t", "tmpfs", "none", str(home)]
    if subprocess.run(mounting, capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount a disk")
    (home / "in").symlink_to(given)
    command = [*PRIVATE, sys.executable, "-m", "tests.faults.small_disk", str(home), *WRITERS]
    environment = {**os.environ, "JPR_CACHE": str(home / "cache"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert not done.returncode, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_or_read_only_disk_is_reported_and_nothing_is_lost(
    rows: list[dict[str, object]], name: str
) -> None:
    failed = [row for row in rows if row["name"] == name and row["code"] != 0]
    assert {0, READ_ONLY} <= {row["room"] for row in failed}
    for row in failed:
        assert row["code"] == 2, row
        assert row["kept"], row
        said = str(row["said"])
        assert said.startswith("jpr: "), said
        assert said.count("\n") == 1, said
        assert any(word in said for word in ("No space", "Read-only", "written", "already")), said


@pytest.mark.parametrize("name", WRITERS)
def test_what_is_left_of_a_failure_is_what_the_next_run_resumes_with(
    rows: list[dict[str, object]], name: str
) -> None:
    left = {file for row in rows if row["name"] == name and row["code"] for file in row["more"]}  # type: ignore[attr-defined]  # a list
    parts = (".r.jsonl.part", ".old.jsonl.part", ".answers.jsonl.part", ".pack.part/", "vectors/")
    assert all(file.startswith(parts) for file in left), left


def test_an_index_on_a_read_only_disk_is_searched(rows: list[dict[str, object]]) -> None:
    assert [row["code"] for row in rows if row["name"] == "search"] == [0]
