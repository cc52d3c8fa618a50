"""Speed of encoding on a GPU, as a fraction of what its matrix units can do.

python benchmarks/encode_gpu.py [--passages 20000] [--layers 6] [--width 384] [--out FILE.json]

Weights are random: speed does not depend on them. Lengths are drawn like those of passages of 100
words (132 tokens on average, 256 at most). It measures the tower alone, from token ids to
vectors on the CPU, and the ceiling: products of square matrices in bfloat16, the best of several.
The work is counted without padding: two operations per weight and token, and attention.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import torch

from jpr.encode.encoder import batches
from jpr.encode.torch_tower import TorchTower
from jpr.models.bert import Bert
from jpr.models.config import BertConfig
from jpr.models.tower import Tower, VectorHead

WORDS = 30522


def passages(count: int) -> list[list[int]]:
    """Draw token ids."""
    chance = np.random.default_rng(0)
    lengths = np.clip(chance.normal(132, 22, size=count).round(), 8, 256).astype(int)
    return [chance.integers(1000, WORDS, size=length).tolist() for length in lengths]


def operations(lengths: list[int], shape: BertConfig) -> float:
    """Count the operations of the matrix products."""
    d, wide = shape.hidden_size, shape.intermediate_size
    weights = 4 * d * d + 2 * d * wide
    each = (2 * weights * n + 4 * d * n * n for n in lengths)
    return float(shape.num_hidden_layers * sum(each))


def seconds(work: Callable[[], object], repetitions: int) -> list[float]:
    """Time something several times, after one run that is not counted."""
    taken = []
    for repetition in range(repetitions + 1):
        torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        if repetition:
            taken.append(time.perf_counter() - start)
    return taken


def ceiling(size: int = 8192) -> float:
    """Return the most operations per second that products of matrices reach."""
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    return 20 * 2 * size**3 / min(seconds(lambda: [a @ b for _ in range(20)], 5))


def main() -> None:
    """Measure, print, and keep the numbers."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--passages", type=int, default=20_000)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    d = options.width
    shape = BertConfig(WORDS, d, options.layers, d // 32 if d < 768 else d // 64, 4 * d, 512)
    tower = TorchTower(Tower(Bert(shape), VectorHead()).eval(), "cuda")
    rows = passages(options.passages)
    lengths = [len(row) for row in rows]
    parts = [[rows[place] for place in part] for part in batches(lengths, tower.budget)]
    taken = median(seconds(lambda: [tower.vectors(part) for part in parts], 5))
    most = ceiling()
    reached = operations(lengths, shape) / taken
    report = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "passages": len(rows),
        "tokens": sum(lengths),
        "layers": options.layers,
        "width": d,
        "passages per second": len(rows) / taken,
        "TFLOP/s": reached / 1e12,
        "TFLOP/s of matrix products": most / 1e12,
        "fraction of that": reached / most,
    }
    for name, value in report.items():
        print(f"{name:28} {value:,.3f}" if isinstance(value, float) else f"{name:28} {value}")
    if options.out:
        options.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
