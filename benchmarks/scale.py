"""The whole pipeline as users run it, on corpora of growing size: time, memory and disk.

python benchmarks/scale.py passages.tsv questions.jsonl --vectors FOLDER [--sizes 10240 102400 0]
    [--reranked 20] [--work FOLDER] [--out FILE.json] [--plot FILE.svg]

Stages are commands, each a process of its own: `jpr index` (lexical, and dense from
`jpr index --vectors`), `jpr retrieve` (100 for every question), `jpr rerank` (the bundled model, of
the first questions), `jpr evaluate`. A size is the first n passages; 0 is all of them. Seconds are
by the clock, CPU seconds and peak resident memory by the kernel, disk is what a stage writes.
The exponent of a stage is the slope of log seconds over log passages from the smallest corpus to
the largest, less what it takes to start (`jpr --help`): 1 is linear.
"""

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from lines import line

from jpr.encode.encoder import Vectors
from jpr.encode.vectors import Chunk, StoredVectors, open_vectors, vectors_for
from jpr.formats.corpus import read_passages, write_passages
from jpr.io.atomic import publish
from jpr.io.cluster import Work
from jpr.io.manifest import manifest
from jpr.stages import Encoder
from jpr.types import Passage

STAGES = ("index", "retrieve", "rerank", "evaluate")
COLUMNS = {
    "passages": (9, "d"),
    "stage": (9, ""),
    "s": (8, ".1f"),
    "CPU s": (8, ".1f"),
    "peak MB": (8, ".0f"),
    "disk MB": (8, ".1f"),
}
Row = dict[str, object]


class Kept:
    """An encoder that remembers: what it gives for the n-th chunk is what was stored."""

    def __init__(self, vectors: StoredVectors) -> None:
        self.key, self.dimension = vectors.key, vectors.dimension
        self._vectors = vectors

    def encode_questions(self, texts: Sequence[str]) -> Vectors:
        """Never asked for."""
        raise NotImplementedError

    def encode_passages(self, passages: Sequence[Passage]) -> Vectors:
        """Never asked for: `run` is."""
        raise NotImplementedError

    def run(
        self, work: Work, encoder: Encoder, chunks: Iterable[Chunk], batch: int
    ) -> Iterator[tuple[int, Vectors]]:
        """Yield the stored vectors of chunks that come in order."""
        for (number, passages), block in zip(chunks, self._vectors.blocks(), strict=False):
            yield number, block[: len(passages)]


def measured(command: Sequence[str], log: Path) -> Row:
    """Run a command to its end and say what it took."""
    start = time.perf_counter()
    with log.open("ab") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=stream)
        _, status, used = os.wait4(process.pid, 0)
    if code := os.waitstatus_to_exitcode(status):
        raise SystemExit(f"{' '.join(command)}: exit {code}; see {log}")
    return {
        "s": time.perf_counter() - start,
        "CPU s": used.ru_utime + used.ru_stime,
        "peak MB": used.ru_maxrss / 1024,
    }


def size_of(path: Path) -> float:
    """Return the megabytes of a file or folder."""
    files = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
    return sum(each.stat().st_size for each in files) / 1e6


def corpus_of(source: Path, vectors: Path, n: int, work: Path) -> tuple[Path, Path, int]:
    """Return the first n passages as a file, their vectors, and how many there are."""
    stored = open_vectors(vectors)
    if not n or n >= stored.count:
        return source, vectors, stored.count
    passages = list(islice(read_passages(source), n))
    corpus, own = work / "passages.tsv", work / "vectors"
    with corpus.open("w", encoding="utf-8") as stream:
        write_passages(passages, stream, "tsv")
    kept = Kept(stored)
    head = stored.head
    vectors_for(passages, kept, own, precision=head.kind, chunk=head.chunk, run=kept.run)
    return corpus, own, n


def rows_of(options: argparse.Namespace, n: int) -> list[Row]:
    """Run all stages on a corpus."""
    work = options.work / str(n)
    work.mkdir(parents=True)
    corpus, vectors, count = corpus_of(options.passages, options.vectors, n, work)
    index, run, joint = work / "index", work / "run.jsonl", work / "joint.jsonl"
    some = work / "some.jsonl"
    jpr = [sys.executable, "-m", "jpr"]
    asked = ["--questions", str(options.questions)]
    commands: dict[str, tuple[list[str], Path]] = {
        "index": (["index", str(corpus), "--vectors", str(vectors), "--out", str(index)], index),
        "retrieve": (["retrieve", str(index), *asked, "--out", str(run)], run),
        "rerank": (["rerank", str(some), "--out", str(joint), "-k", "10"], joint),
        "evaluate": (["evaluate", str(run), *asked], run),
    }
    found: list[Row] = []
    for stage in STAGES:
        if stage == "rerank":
            with run.open(encoding="utf-8") as lines:
                some.write_text("".join(islice(lines, options.reranked)), encoding="utf-8")
        arguments, written = commands[stage]
        row = measured([*jpr, *arguments], work / "log")
        disk = size_of(written) if stage != "evaluate" else 0.0
        found.append({"passages": count, "stage": stage, **row, "disk MB": disk})
        print(line(COLUMNS, found[-1]), flush=True)
    if not options.keep:
        shutil.rmtree(work)
    return found


def exponents(rows: Sequence[Row], start: float) -> dict[str, float]:
    """Return how each stage grows."""
    found = {}
    for stage in STAGES:
        own = [(int(str(r["passages"])), float(str(r["s"]))) for r in rows if r["stage"] == stage]
        (least, first), (most, last) = min(own), max(own)
        if most > least:
            times = max(last - start, 1e-3) / max(first - start, 1e-3)
            found[stage] = math.log(times) / math.log(most / least)
    return found


def plot(rows: Sequence[Row], path: Path) -> None:
    """Draw seconds and peak memory over passages, both axes by powers of ten."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.2), layout="constrained")
    for axes, name in zip(figure.subplots(1, 2), ("s", "peak MB"), strict=True):
        for stage in STAGES:
            own = sorted((r["passages"], r[name]) for r in rows if r["stage"] == stage)
            axes.plot(*zip(*own, strict=True), marker="o", label=stage)
        axes.set(xscale="log", yscale="log", xlabel="passages", ylabel=name)
    figure.axes[0].legend(fontsize="small")
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("passages", type=Path)
    parser.add_argument("questions", type=Path)
    parser.add_argument("--vectors", type=Path, required=True)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_240, 102_400, 0])
    parser.add_argument("--reranked", type=int, default=20)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--keep", action="store_true", help="keep what was made")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    began = time.perf_counter()
    options.work.mkdir(parents=True, exist_ok=True)
    start = float(str(measured([sys.executable, "-m", "jpr", "--help"], options.work / "log")["s"]))
    print(line(COLUMNS, {}))
    rows = [row for n in options.sizes for row in rows_of(options, n)]
    grown = exponents(rows, start)
    print("exponents:", ", ".join(f"{stage} {value:.2f}" for stage, value in grown.items()))
    if options.plot:
        plot(rows, options.plot)
    if options.out:
        inputs = {path.name: path for path in (options.passages, options.questions)}
        command = f"python benchmarks/scale.py {' '.join(inputs)} --vectors vectors --work work"
        depends = manifest(command, inputs, time.perf_counter() - began)
        made = {**depends, "reranked": options.reranked, "start s": start, "exponents": grown}
        with publish(options.out) as stream:
            stream.write(json.dumps({**made, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
