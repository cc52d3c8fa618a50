"""Speed of encoding on one core, against sentence-transformers, on the same real passages.

python benchmarks/encode.py --encoder FOLDER --corpus FILE [--passages 500] [--out FILE.json]

FOLDER is one of sentence-transformers, such as all-MiniLM-L6-v2's. Ours is measured as 8-bit ONNX
(scaled by passages of the same corpus that are not measured), as 32-bit ONNX and in torch. All run
in one process with one thread, in turn, several times; the figure is the median of passages per
second of CPU time, tokenization included. Vectors are compared with sentence-transformers' by their
cosines and by how far the lists of nearest passages agree.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from statistics import median

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer

from jpr.encode.encoder_folder import export_encoder, load_encoder
from jpr.formats.corpus import read_passages
from jpr.io.atomic import publish
from jpr.io.manifest import manifest
from jpr.types import Passage

PACKAGES = ("onnxruntime", "torch", "sentence-transformers", "transformers")
SAMPLE = 128
NEAREST = 10
PEER = "sentence-transformers"

Vectors = NDArray[np.float32]


@dataclass
class System:
    """Something that encodes passages, and how long it took each time."""

    encode: Callable[[list[Passage]], Vectors]
    seconds: list[float] = field(default_factory=list)
    vectors: Vectors = field(default_factory=lambda: np.empty((0, 0), np.float32))

    def measure(self, passages: list[Passage]) -> None:
        """Encode once more."""
        start = time.process_time()
        self.vectors = self.encode(passages)
        self.seconds.append(time.process_time() - start)


def peer(folder: Path) -> Callable[[list[Passage]], Vectors]:
    """Encode the same texts with sentence-transformers, as its documentation shows."""
    model = SentenceTransformer(str(folder), device="cpu")

    def encode(passages: list[Passage]) -> Vectors:
        texts = [f"{p.title}. {p.text}" if p.title else p.text for p in passages]
        found: Vectors = model.encode(texts, show_progress_bar=False)
        return found

    return encode


def systems(folder: Path, sample: list[Passage], work: Path) -> dict[str, System]:
    """Open all that is compared."""
    export_encoder(folder, work / "int8", sample, [passage.title for passage in sample])
    export_encoder(folder, work / "fp32")
    return {
        "ours, ONNX 8 bits": System(load_encoder(work / "int8", "cpu", 1).encode_passages),
        "ours, ONNX 32 bits": System(load_encoder(work / "fp32", "cpu", 1).encode_passages),
        "ours, torch 32 bits": System(load_encoder(folder, "cpu").encode_passages),
        PEER: System(peer(folder)),
    }


def nearest(vectors: Vectors, k: int) -> NDArray[np.int64]:
    """Return each passage's k nearest others."""
    scores = vectors @ vectors.T
    np.fill_diagonal(scores, -np.inf)
    found: NDArray[np.int64] = np.argsort(-scores, axis=1)[:, :k]
    return found


def overlap(a: Vectors, b: Vectors, k: int) -> float:
    """Return the share of the k nearest that two sets of vectors have in common."""
    pairs = zip(nearest(a, k), nearest(b, k), strict=True)
    return float(np.mean([len(set(x.tolist()) & set(y.tolist())) / k for x, y in pairs]))


def row(system: System, reference: System) -> dict[str, float]:
    """Return what is reported of a system."""
    count = len(system.vectors)
    speed = count / median(system.seconds)
    cosines = (system.vectors * reference.vectors).sum(axis=1)
    return {
        "passages per CPU second": speed,
        "slowest": count / max(system.seconds),
        "fastest": count / min(system.seconds),
        "times the peer's speed": speed * median(reference.seconds) / count,
        "cosine, mean": float(cosines.mean()),
        "cosine, least": float(cosines.min()),
        f"nearest {NEAREST} in common": overlap(system.vectors, reference.vectors, NEAREST),
    }


def main() -> None:
    """Measure, print a table, and keep the numbers."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--encoder", type=Path, required=True)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--passages", type=int, default=500)
    parser.add_argument("--step", type=int, default=500, help="take every n-th passage")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    start = time.perf_counter()
    last = (options.passages + SAMPLE) * options.step
    taken = list(islice(read_passages(options.corpus), 0, last, options.step))
    sample, passages = taken[:SAMPLE], taken[SAMPLE:]
    with tempfile.TemporaryDirectory() as work:
        compared = systems(options.encoder, sample, Path(work))
        for system in compared.values():
            system.encode(passages[:10])  # what is done but once is not measured
        for _ in range(options.repetitions):
            for system in compared.values():
                system.measure(passages)
        size = (Path(work) / "int8" / "model.onnx").stat().st_size
    rows = {name: row(system, compared[PEER]) for name, system in compared.items()}
    print(f"{'':22} {'p/CPU s':>8} {'times':>6} {'cosine':>7} {'least':>7} {'nearest':>8}")
    for name, values in rows.items():
        speed, _, _, times, mean, least, common = values.values()
        print(f"{name:22} {speed:8.1f} {times:6.2f} {mean:7.4f} {least:7.4f} {common:8.3f}")
    if options.out:
        inputs = {"corpus": options.corpus, "weights": options.encoder / "model.safetensors"}
        command = f"python benchmarks/encode.py --passages {len(passages)}"
        made = manifest(command, inputs, time.perf_counter() - start, packages=PACKAGES)
        kept = {
            "passages": len(passages),
            "repetitions": options.repetitions,
            "megabytes of the 8-bit model": size / 1e6,
            "load of the machine": os.getloadavg()[1],
            "systems": rows,
            "manifest": made,
        }
        with publish(options.out) as stream:
            stream.write(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
