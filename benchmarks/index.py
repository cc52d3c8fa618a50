"""Indexes side by side: what they take to build and to open, how fast and how well they search.

python benchmarks/index.py passages.tsv questions.jsonl [--vectors FOLDER --encoder FOLDER]
    [--sizes 100000 1222650] [--systems NAME …] [--work FOLDER] [--out results/benchmark-index.json]

Indexes the first n passages with their vectors (`jpr index --vectors`). Without --vectors, random
ones around centres are used, also for the questions (recall then means nothing for real text). Each
system builds in one process and searches in another, with one thread; its files are dropped from
the page cache before it opens them. Build time is all CPU time of the process, with imports and
reading the corpus (the first row is reading only). Opening is import and open; the first answer is
reported apart. Latencies are for 100 results of one question at a time, after ten to warm up.
Recall is the share of the exact 100 nearest by float32 that is found. LanceDB is 400 MB to install:
run this in an environment that has it, or leave it out with --systems.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
from index_systems import SYSTEMS, Drawn, Task, Vectors

from jpr.encode.encoder_folder import load_encoder
from jpr.formats.questions import load_questions
from jpr.io.atomic import publish
from jpr.io.manifest import manifest

WARM_UP = 10
PACKAGES = ("tantivy", "faiss-cpu", "bm25s", "numba", "lancedb")


def build(name: str, task: Task) -> dict[str, float]:
    """Build in this process and return its cost."""
    folder = task.folder / name
    folder.mkdir(parents=True)
    start = time.perf_counter()
    SYSTEMS[name].build(task, folder)
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "build CPU s": used.ru_utime + used.ru_stime,
        "build s": time.perf_counter() - start,
        "build MB": used.ru_maxrss / 1024,
        "disk MB": sum(path.stat().st_size for path in _files(folder)) / 1e6,
    }


def search(name: str, task: Task) -> dict[str, float]:
    """Open and search in this process and return the times."""
    folder = task.folder / name
    for path in _files(folder):
        _forget(path)
    start = time.perf_counter()
    opened = SYSTEMS[name].open
    assert opened is not None
    find = opened(task, folder)
    ready = time.perf_counter() - start
    found, seconds = [], []
    for i in range(len(task.texts())):
        start = time.perf_counter()
        found.append(find(i))
        seconds.append(time.perf_counter() - start)
    result = {
        "open s": ready,
        "first ms": 1000 * seconds[0],
        "p50 ms": 1000 * float(np.percentile(seconds[WARM_UP:], 50)),
        "p95 ms": 1000 * float(np.percentile(seconds[WARM_UP:], 95)),
        "search MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    if SYSTEMS[name].of_vectors:
        result["recall"] = _recall(found, task.folder / "exact.json", name)
    return result


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def _forget(path: Path) -> None:
    """Drop a file from the page cache, as far as the system does what it is asked."""
    with path.open("rb") as stream:
        os.fsync(stream.fileno())
        os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _recall(found: Sequence[Sequence[int]], file: Path, name: str) -> float:
    if name == "faiss flat float32":  # comes first, and is the truth
        file.write_text(json.dumps(found))
    exact = json.loads(file.read_text())
    hits = sum(len({*a} & {*b}) for a, b in zip(found, exact, strict=True))
    return hits / sum(map(len, exact))


def in_fresh_process(step: str, name: str, task: Task) -> dict[str, float]:
    """Run a step of a system in a process of its own, with one thread."""
    one = {
        f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "OPENBLAS", "NUMBA", "RAYON")
    }
    one["LANCE_CPU_THREADS"] = "1"
    command = [sys.executable, __file__, "--step", step, name, json.dumps(asdict(task))]
    ended = subprocess.run(command, env={**os.environ, **one}, stdout=subprocess.PIPE, text=True)
    if ended.returncode:
        raise SystemExit(f"{name}: could not {step}; --systems leaves it out")
    result: dict[str, float] = json.loads(ended.stdout.splitlines()[-1])
    return result


def question_vectors(options: argparse.Namespace) -> Vectors:
    """Encode the questions, or draw vectors for them."""
    texts = [question.text for question in load_questions(options.questions)]
    if options.vectors:
        return load_encoder(options.encoder).encode_questions(texts)
    return np.concatenate(list(Drawn(len(texts), seed=1).blocks()))


def parsed() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("passages", type=Path)
    parser.add_argument("questions", type=Path)
    parser.add_argument("--vectors", type=Path)
    parser.add_argument("--encoder", type=Path)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100_000, 1_222_650])
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--work", type=Path, required=True, help="an empty folder")
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def main() -> None:
    """Measure, print a table, and keep the numbers."""
    if sys.argv[1:2] == ["--step"]:
        step, name, given = sys.argv[2:]
        print(json.dumps({"build": build, "search": search}[step](name, Task(**json.loads(given)))))
        return
    options, start = parsed(), time.perf_counter()
    options.work.mkdir(parents=True, exist_ok=True)
    np.save(options.work / "questions.npy", question_vectors(options))
    rows = []
    for n in options.sizes:
        vectors = str(options.vectors or "")
        task = Task(str(options.passages), str(options.questions), vectors, n, str(options.work))
        for name in options.systems:
            row = {"passages": n, "system": name, **in_fresh_process("build", name, task)}
            if SYSTEMS[name].open and len(row) > 2:
                row |= in_fresh_process("search", name, task)
            rows.append(row)
            print("  ".join(f"{k} {v:.4g}" if k != "system" else f"{v:20}" for k, v in row.items()))
    if options.out:
        inputs = {"passages": options.passages, "questions": options.questions}
        made = manifest(
            "python benchmarks/index.py", inputs, time.perf_counter() - start, packages=PACKAGES
        )
        with publish(options.out) as stream:
            stream.write(json.dumps({"rows": rows, "manifest": made}, indent=1) + "\n")


if __name__ == "__main__":
    main()
