"""Processes that train one model together, each on its part of every batch (torchrun)."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from jpr.errors import ConfigError


@dataclass(frozen=True, slots=True)
class World:
    """Which of how many processes this one is; all hold the same weights."""

    rank: int = 0
    size: int = 1

    @classmethod
    def join(cls) -> "World":
        """Meet the other processes that torchrun has started, if it has."""
        if "WORLD_SIZE" not in os.environ:
            return cls()
        if torch.cuda.is_available():
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
        return cls(dist.get_rank(), dist.get_world_size())

    @property
    def device(self) -> str:
        """Where this process computes: on its own GPU, if there is one."""
        return "cuda" if torch.cuda.is_available() else "cpu"

    @property
    def is_first(self) -> bool:
        """Whether it falls to this process to write and to evaluate."""
        return self.rank == 0

    def check_batch(self, batch: int, micros: int) -> None:
        """Refuse a batch of fewer questions than the parts it is cut into."""
        if batch < self.size * micros:
            told = f"{self.size} processes with {micros} micro-batches each"
            raise ConfigError(f"a batch of {batch} questions for {told}; make it larger")

    def leave(self) -> None:
        """Part from the other processes."""
        if self.size > 1:
            dist.destroy_process_group()

    def wait(self) -> None:
        """Wait until all processes have come here."""
        if self.size > 1:
            dist.barrier()

    def add_gradients(self, weights: Sequence[Tensor]) -> None:
        """Give every process the sum of all gradients."""
        if self.size == 1:
            return
        whole = [torch.zeros_like(w) if w.grad is None else w.grad for w in weights]
        flat = torch.cat([gradient.flatten() for gradient in whole])
        dist.all_reduce(flat)
        parts = torch.split(flat, [gradient.numel() for gradient in whole])
        for weight, part in zip(weights, parts, strict=True):
            weight.grad = part.view_as(weight)

    def sums(self, first: float, second: float, device: torch.device) -> tuple[float, float]:
        """Return the sums of two numbers over all processes."""
        if self.size == 1:
            return first, second
        both = torch.tensor([first, second], dtype=torch.float64, device=device)
        dist.all_reduce(both)
        return float(both[0]), float(both[1])

    def first_says(self, value: float, device: torch.device) -> float:
        """Return the number that the first process gives."""
        if self.size == 1:
            return value
        said = torch.tensor([value], dtype=torch.float64, device=device)
        dist.broadcast(said, 0)
        return float(said[0])


def suit_new_shapes() -> None:
    """Prepare a GPU for batches of ever new sizes.

    Its memory grows in place, unless the user has said otherwise of memory; and attention is not
    left to cuDNN, which plans anew for each size: more than half of the time of a T5-base.
    """
    torch.backends.cuda.enable_cudnn_sdp(False)
    said = {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"} & os.environ.keys()
    if not said and hasattr(torch._C, "_accelerator_setAllocatorSettings"):  # older ones lack it
        torch._C._accelerator_setAllocatorSettings("expandable_segments:True")
