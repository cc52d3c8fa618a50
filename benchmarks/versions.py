"""Speed of two checkouts of jpr in one run: commands a user types, in alternating rounds.

python benchmarks/versions.py OLD NEW [--rounds 5] [--passages FILE.tsv] [--out FILE.json]

OLD and NEW are folders that hold a package `jpr`; both run under this Python. Reported are medians
of CPU seconds (user and system, children included), which a busy machine changes less than wall
time, and of wall seconds, with the ratio new : old. `index` needs a TSV of passages; it builds a
lexical index.
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

QUESTION = "Who discovered insulin?"


def commands(passages: Path | None, work: Path) -> dict[str, list[str]]:
    """Return what is timed, by name."""
    found = {
        "python -c 'import jpr.cli'": ["-c", "import jpr.cli"],
        "jpr --help": ["-m", "jpr", "--help"],
        "jpr ask": ["-m", "jpr", "ask", QUESTION, "--json"],
    }
    if passages:
        index = ["index", str(passages), "--encoder", "none", "--out", str(work / "index")]
        found["jpr index"] = ["-m", "jpr", *index]
    return found


def timed(command: list[str], checkout: Path, cache: Path) -> tuple[float, float]:
    """Run a command from a checkout; return CPU and wall seconds."""
    environment = {**os.environ, "PYTHONPATH": str(checkout), "JPR_CACHE": str(cache)}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        [sys.executable, *command],
        env=environment,
        cwd=cache,
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--passages", type=Path)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    versions = {"old": options.old.resolve(), "new": options.new.resolve()}
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        passages = options.passages and options.passages.resolve()
        for name, command in commands(passages, work).items():
            caches = {which: work / which for which in versions}
            for which, cache in caches.items():
                cache.mkdir(exist_ok=True)
                timed(command, versions[which], cache)  # fills caches; not counted
            taken: dict[str, list[tuple[float, float]]] = {which: [] for which in versions}
            for _ in range(options.rounds):
                for which, checkout in versions.items():
                    taken[which].append(timed(command, checkout, caches[which]))
            cpu = {which: median(one[0] for one in taken[which]) for which in versions}
            wall = {which: median(one[1] for one in taken[which]) for which in versions}
            row = {"command": name, "rounds": options.rounds, "CPU s": cpu, "wall s": wall}
            rows.append(row | {"CPU ratio": cpu["new"] / cpu["old"]})
            print(
                f"{name:28} CPU {cpu['old']:6.2f} → {cpu['new']:6.2f} s, "
                f"wall {wall['old']:6.2f} → {wall['new']:6.2f} s",
                flush=True,
            )
    if options.out:
        machine = (
            f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
        )
        options.out.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
