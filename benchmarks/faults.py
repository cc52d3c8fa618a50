"""Kill commands by SIGKILL at random moments, start them again, and compare with undisturbed runs.

python benchmarks/faults.py [--times 50] [--jobs encode,train] [--seed 0] [--tiny] [--out FILE.json]

Each job of benchmarks/fault_jobs.py runs undisturbed once. Then it is started, killed once or twice
and started again by the same command until it ends, until there were `--times` kills. One kill in
ten comes while Python starts; the others between the first file that the job writes and its end.
What is compared:

- meanwhile, a reader sees the complete state before or after a command;
- in the end, results are the same bytes where that is promised (vectors, weights, rankings,
  answers), otherwise the same passages, hits and scores (an index has random file names);
- there are no files that the undisturbed run did not leave, temporary or other.

`serve` is killed under load (benchmarks/fault_serve.py). The models are tiny and random.
"""

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from fault_jobs import FULL, JOBS, TINY, Job, Size, prepare
from fault_serve import killed_services
from faulted import write_models
from lines import line

from jpr.io.manifest import manifest

FAULTED = Path(__file__).with_name("faulted.py")
STARTING = 0.1
MAX_KILLS = 2
MAX_RUNS = 3
"""Runs per kill, at most: some end before they are killed."""
COLUMNS = {
    "job": (14, ""),
    "seconds": (7, ".2f"),
    "runs": (5, "d"),
    "kills": (5, "d"),
    "starting": (8, "d"),
    "same": (5, "d"),
    "left over": (9, "d"),
}
_SAID = ("stdout", "stderr", "temporary/.ses")
"""The output of commands, and a file that onnxruntime writes when it is imported."""
_NAMES = (
    (re.compile(r"[0-9a-f]{32}(\.\d+\.del)?"), "SEGMENT"),
    (re.compile(r"(?<=/)v\d+(?=/)"), "VERSION"),
)
"""Random names of index files, and those of deleted passages, which a rebuilt index lacks."""


@dataclass(slots=True)
class Place:
    """A folder that is always at the same path, reset for every run."""

    home: Path
    pristine: Path

    def reset(self) -> Path:
        """Restore its initial contents."""
        shutil.rmtree(self.home, ignore_errors=True)
        shutil.copytree(self.pristine, self.home)
        return self.home


def environment(home: Path) -> dict[str, str]:
    """Return an environment with all files below a folder, and one thread."""
    (home / "temporary").mkdir(exist_ok=True)
    own = {"JPR_CACHE": str(home / "cache"), "TMPDIR": str(home / "temporary")}
    return {**os.environ, **own, "OMP_NUM_THREADS": "1"}


def start(home: Path, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a command, with its output in files."""
    with (home / "stdout").open("wb") as out, (home / "stderr").open("wb") as err:
        command = [sys.executable, str(FAULTED), "models", *arguments]
        return subprocess.Popen(command, cwd=home, env=environment(home), stdout=out, stderr=err)


def run(home: Path, arguments: Sequence[str]) -> None:
    """Run a command that must succeed."""
    if start(home, arguments).wait():
        raise SystemExit((home / "stderr").read_text(encoding="utf-8"))


def files(home: Path) -> dict[str, tuple[int, int]]:
    """Return the size and time of each file, except for output."""
    found = {}
    for folder, _, names in os.walk(home):
        for name in names:
            path = Path(folder, name)
            try:
                status = path.stat()
            except FileNotFoundError:  # it was renamed meanwhile
                continue
            found[str(path.relative_to(home))] = (status.st_size, status.st_mtime_ns)
    return {name: of for name, of in found.items() if name not in _SAID}


def names(home: Path) -> set[str]:
    """Return the names of all files, random ones by a word for their kind."""
    found = set()
    for name in files(home):
        for pattern, kind in _NAMES:
            name = pattern.sub(kind, name)
        found.add(name)
    return {name for name in found if not name.endswith("SEGMENT")}


def begun(process: subprocess.Popen[bytes], home: Path, before: object) -> bool:
    """Wait for the first file that is written; return False if the process ends before."""
    while process.poll() is None:
        if files(home) != before:
            return True
        time.sleep(0.002)
    return False


@dataclass(frozen=True, slots=True)
class Whole:
    """An undisturbed run."""

    result: object
    states: list[object]
    """What a reader sees before the first command, and after each."""
    names: set[str]
    starting: float
    working: list[float]
    """Seconds from the first file to the end, of each command."""


def undisturbed(job: Job, place: Place) -> Whole:
    """Run a job to its end."""
    home = place.reset()
    states, working, starting = [job.between(home)], [], 0.0
    for command in job.commands:
        before, started = files(home), time.monotonic()
        process = start(home, command)
        begun(process, home, before)
        first = time.monotonic()
        if process.wait():
            raise SystemExit((home / "stderr").read_text(encoding="utf-8"))
        starting = first - started
        working.append(time.monotonic() - first)
        states.append(job.between(home))
    return Whole(job.result(home), states, names(home), starting, working)


@dataclass(slots=True)
class Tally:
    """Counts and problems of a job."""

    kills: int = 0
    starting: int = 0
    same: int = 0
    left: int = 0
    problems: list[str] = field(default_factory=list)


def disturbed(job: Job, place: Place, whole: Whole, draw: random.Random, tally: Tally) -> None:
    """Run a job, kill it, and compare."""
    home = place.reset()
    for command, working in zip(job.commands, whole.working, strict=True):
        kills = draw.randint(1, MAX_KILLS)
        ended = False
        while kills and not ended:
            ended = killed(job, home, command, (whole.starting, working), draw, tally)
            kills -= 1
            if job.between(home) not in whole.states:
                tally.problems.append("a reader found a state that is neither old nor new")
        if not ended and (problem := finished(job, home, command)):
            tally.problems.append(problem)
            return
    if job.result(home) == whole.result:
        tally.same += 1
    else:
        tally.problems.append("the result differs")
    if more := names(home) ^ whole.names:
        tally.left += 1
        tally.problems.append(f"files differ: {sorted(more)}")


def killed(
    job: Job,
    home: Path,
    command: Sequence[str],
    seconds: tuple[float, float],
    draw: random.Random,
    tally: Tally,
) -> bool:
    """Start a command and kill it; return whether it ended before that."""
    starting, working = seconds
    before = files(home)
    early = draw.random() < STARTING
    process = start(home, again(job, home, command))
    if early or begun(process, home, before):
        with suppress(subprocess.TimeoutExpired):  # time to kill it
            process.wait(draw.uniform(0, starting if early else working))
    ended = process.poll() is not None
    process.kill()
    if process.wait() == 0:
        return True
    if ended:
        said = (home / "stderr").read_text(encoding="utf-8")
        if job.done not in said:
            tally.problems.append(said)
        return True
    tally.kills += 1
    tally.starting += early
    return False


def again(job: Job, home: Path, command: Sequence[str]) -> list[str]:
    """Return a command, with `--resume` if it has started before."""
    is_begun = job.resume and (home / job.resume).exists()
    return [*command, *(["--resume"] if is_begun else [])]


def finished(job: Job, home: Path, command: Sequence[str]) -> str:
    """Start a command for the last time; return its error, if any."""
    code = start(home, again(job, home, command)).wait()
    said = (home / "stderr").read_text(encoding="utf-8")
    return said if code and job.done not in said else ""


def measured(job: Job, place: Place, times: int, seed: int) -> dict[str, object]:
    """Run a job undisturbed, and then with kills."""
    whole = undisturbed(job, place)
    draw, tally = random.Random(f"{seed} {job.name}"), Tally()
    runs = 0
    while tally.kills < times and runs < MAX_RUNS * times:
        disturbed(job, place, whole, draw, tally)
        runs += 1
    return {
        "job": job.name,
        "seconds": whole.starting + sum(whole.working),
        "runs": runs,
        "kills": tally.kills,
        "starting": tally.starting,
        "same": tally.same,
        "left over": tally.left,
        "problems": sorted(set(tally.problems)),
    }


def prepared(folder: Path, size: Size) -> Place:
    """Write the input of all jobs."""
    place = Place(folder / "home", folder / "pristine")
    place.home.mkdir()
    write_models(place.home / "models")
    prepare(place.home, size, run)
    shutil.copytree(place.home, place.pristine)
    return place


def main() -> None:
    """Kill, print, write."""
    every = [*(job.name for job in JOBS), "serve"]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--jobs", default=",".join(every), help=f"of {', '.join(every)}")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tiny", action="store_true", help="little work, to try it")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    chosen = options.jobs.split(",")
    if unknown := set(chosen) - set(every):
        parser.error(f"--jobs {', '.join(sorted(unknown))}: there are {', '.join(every)}")
    began = time.perf_counter()
    rows = []
    print(line(COLUMNS, {}))
    with tempfile.TemporaryDirectory() as folder:
        place = prepared(Path(folder), TINY if options.tiny else FULL)
        for job in (*JOBS, None):
            if job is None and "serve" in chosen:
                rows.append(killed_services(place.reset, start, options.times, options.seed))
            elif job is not None and job.name in chosen:
                rows.append(measured(job, place, options.times, options.seed))
            else:
                continue
            print(line(COLUMNS, rows[-1]), flush=True)
            for problem in rows[-1]["problems"]:  # type: ignore[attr-defined]  # a list
                print(f"  {problem}", flush=True)
    about = manifest(" ".join(["python", *sys.argv]), {}, time.perf_counter() - began)
    if options.out:
        report = {"rows": rows, **about}
        options.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
