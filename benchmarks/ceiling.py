"""What products of square matrices reach, which is what other work on a device is measured by."""

import time
from statistics import median

import torch


def ceiling(device: str = "cuda", size: int = 8192) -> float:
    """Return their operations per second in bfloat16, the median of several."""
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
    """Wait until a device has done all it was given."""
    if device == "cuda":
        torch.cuda.synchronize()
