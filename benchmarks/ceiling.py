"""Throughput of square matrix products, against which other work on a device is measured."""

import time
from statistics import median

import torch


def ceiling(device: str = "cuda", size: int = 8192) -> float:
    """Return their operations per second in bfloat16, the median of several runs."""
    a, b = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    taken = []
    for _ in range(8):
        settle(device)
        start = time.perf_counter()
        for _ in range(10):
            a @ b
        settle(device)
        taken.append(time.perf_counter() - start)
    return 10 * 2 * size**3 / median(taken[3:])


def settle(device: str) -> None:
    """Wait until a device is idle."""
    if device == "cuda":
        torch.cuda.synchronize()
