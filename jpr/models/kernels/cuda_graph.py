"""Work on the GPU that is recorded once and played back (CUDA graphs).

A pass through a small model is hundreds of operations, each of which takes the processor longer to
start than the GPU to do. A recording is started as one. It is of fixed shapes, so inputs are padded
to a few sizes; and it works in memory of its own, so it belongs to one thread.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

_MOST = 64


def captured(work: Callable[[], None]) -> Callable[[], None]:
    """Record work on tensors that keep their place, without doing it; it must have run before."""
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay


class CudaGraph:
    """One piece of work, with a place for each of its inputs."""

    def __init__(
        self, work: Callable[..., Tensor], given: Sequence[Tensor], device: torch.device
    ) -> None:
        """Do the work once, so that kernels are compiled and chosen, and record it."""
        self._given = [part.to(device, copy=True) for part in given]
        aside: torch.cuda.Stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            work(*self._given)
        torch.cuda.current_stream().wait_stream(aside)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._found = work(*self._given)

    def __call__(self, *given: Tensor) -> Tensor:
        """Return what the work gives for other inputs: good until it is called again."""
        for mine, part in zip(self._given, given, strict=True):
            mine.copy_(part)
        self._graph.replay()
        return self._found


class CudaGraphCache:
    """Recordings by what they are of; those not used for longest go when there are many."""

    def __init__(self) -> None:
        """Begin with none."""
        self._mine = threading.local()

    def play(
        self, key: object, work: Callable[..., Tensor], *given: Tensor, device: torch.device
    ) -> Tensor:
        """Play what is known by a key, which tells work and shapes; record it first if need be."""
        known: OrderedDict[object, CudaGraph] = self._mine.__dict__.setdefault(
            "known", OrderedDict()
        )
        if key not in known:
            known[key] = CudaGraph(work, given, device)
        known.move_to_end(key)
        while len(known) > _MOST:
            known.popitem(last=False)
        return known[key](*given)
