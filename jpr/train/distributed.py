"""Processes that train one model together, each on its part of every batch (torchrun)."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor


@dataclass(frozen=True, slots=True)
class World:
    """The rank of this process among all, which hold the same weights."""

    rank: int = 0
    size: int = 1
    device: str = "cpu"  # of this process

    @classmethod
    def join(cls) -> "World":
        """Take a GPU if there is one; join the other processes if torchrun started this one."""
        device = "cuda" if torch.cuda.is_available() else "cpu"
        if "WORLD_SIZE" not in os.environ:
            return cls(device=device)
        if device == "cuda":
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl" if device == "cuda" else "gloo")
        return cls(dist.get_rank(), dist.get_world_size(), device)

    @property
    def is_first(self) -> bool:
        """Whether this process writes files and evaluates."""
        return self.rank == 0

    def leave(self) -> None:
        """Leave the process group."""
        if self.size > 1:
            dist.destroy_process_group()

    def wait(self) -> None:
        """Wait until all processes have called this."""
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

    def total(self, value: float, device: torch.device) -> float:
        """Return the sum of a number over all processes."""
        shared = torch.tensor(value, dtype=torch.float64, device=device)
        if self.size > 1:
            dist.all_reduce(shared)
        return shared.item()


ALONE = World()


def autocast(device: torch.device) -> torch.autocast:
    """Return a context that computes in 16 bits on a GPU."""
    return torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda")


def prepare_gpu() -> None:
    """Prepare a GPU for batches whose sizes always change.

    Its memory grows in place, unless the user configured the allocator; and attention does not use
    cuDNN, which plans again for each size: more than half of the time of a T5-base.
    """
    torch.backends.cuda.enable_cudnn_sdp(False)
    configured = {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"} & os.environ.keys()
    if not configured and hasattr(torch._C, "_accelerator_setAllocatorSettings"):  # since torch 2.9
        torch._C._accelerator_setAllocatorSettings("expandable_segments:True")
