"""Commands on a disk of a few megabytes, with more or less room, and on one that is read-only.

`unshare -rm python -m tests.faults.small_disk HOME COMMAND …`, in a namespace of its own, prints a
JSON line for every command and room: how it ended, what it said, whether the files that were there
before are the same, and which there are more.
"""

import hashlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from jpr.cli import _exit_code

MEGABYTES = 6
ROOMS = (0, 3_000, 30_000, 150_000)
"""Bytes that are left; the last suffices for some."""
READ_ONLY = -1
COMMANDS = {
    "index": ["index", "in/corpus.jsonl", "--out", "disk/new", "--encoder", "in/encoder"],
    "build again": ["index", "in/corpus.jsonl", "--out", "disk/index", "--encoder", "in/encoder"],
    "add": ["index", "--add", "in/more.jsonl", "--out", "disk/index"],
    "remove": ["index", "--remove", "1,2", "--out", "disk/index"],
    "encode": ["index", "in/corpus.jsonl", "--vectors", "disk/vectors", "--encoder", "in/encoder"],
    "convert": ["convert", "in/corpus.jsonl", "disk/corpus.tsv", "--to", "tsv"],
    "convert to zst": ["convert", "in/run.jsonl", "disk/old.jsonl.zst", "--to", "ctxs"],
    "retrieve": [
        "retrieve",
        "disk/index",
        "--questions",
        "in/asked.jsonl",
        "--out",
        "disk/r.jsonl",
    ],
    "rerank": ["rerank", "in/run.jsonl", "--out", "disk/old.jsonl", "--model", "in/joint"],
    "read": ["read", "in/run.jsonl", "--out", "disk/answers.jsonl", "--model", "in/joint"],
    "pack": [
        *("pack", "in/run.jsonl", "--questions", "in/asked.jsonl", "--out", "disk/pack"),
        *("--tokenizer", "in/encoder"),
    ],
    "search": ["retrieve", "disk/index", "river"],
    "train": ["train", "in/recipe.toml", "--out", "disk/trained"],
    "export": ["export", "in/torch-joint", "--out", "disk/exported", "--set", "precision=fp32"],
}


def digests(folder: Path) -> dict[str, str]:
    """Return the hashes of all files, but for locks and what fills the disk."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
        if not path.name.endswith("lock") and path.name != "filler"
    }


def fill(disk: Path, room: int) -> None:
    """Leave as many bytes."""
    (disk / "filler").unlink(missing_ok=True)
    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    (disk / "filler").write_bytes(bytes(max(free - room, 0)))


def attempt(arguments: Sequence[str]) -> tuple[int | None, str]:
    """Run a command and return how it ended and what it said."""
    said = io.StringIO()
    with Path("stdout").open("w") as out, redirect_stderr(said), redirect_stdout(out):
        try:
            code: int | None = _exit_code(arguments)
        except BaseException as error:  # what a user would see as a traceback
            code = None
            said.write(f"{type(error).__name__}: {error}")
    return code, said.getvalue()


def main(home: Path, commands: Sequence[str]) -> None:
    """Try every command with every room."""
    os.chdir(home)
    disk = Path("disk")
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={MEGABYTES}m", "none", disk], check=True)
    assert attempt(COMMANDS["build again"])[0] == 0
    assert attempt(COMMANDS["rerank"])[0] == 0
    for name in commands:
        for room in ROOMS:
            fill(disk, room)
            if outcome(name, room, disk) == 0:
                break
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    for name in (*commands, "search"):
        outcome(name, READ_ONLY, disk)


def outcome(name: str, room: int, disk: Path) -> int | None:
    """Try a command, and say what came of it."""
    before = digests(disk)
    code, said = attempt(COMMANDS[name])
    after = digests(disk)
    results = {file: digest for file, digest in before.items() if not file.startswith(".")}
    kept = all(after.get(file) == digest for file, digest in results.items())
    row = {"name": name, "room": room, "code": code, "said": said, "kept": kept}
    more = sorted(after.keys() - before.keys())
    sys.stdout.write(json.dumps({**row, "more": more}) + "\n")
    return code


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
