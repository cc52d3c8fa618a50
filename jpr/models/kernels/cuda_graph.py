"""CUDA graphs: work on the GPU that is captured once and replayed.

A pass through a small model is hundreds of operations, each of which takes the CPU longer to launch
than the GPU to do. A graph is launched as one. Its shapes are fixed, so inputs are padded to a few
sizes; it works in buffers of its own, so it belongs to one thread.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

_MAX_GRAPHS = 64


def capture(work: Callable[[], None]) -> Callable[[], None]:
    """Capture work in place, without running it; it must have run before to compile kernels."""
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay


class CudaGraph:
    """A captured function, with a buffer for each of its inputs."""

    def __init__(
        self, work: Callable[..., Tensor], inputs: Sequence[Tensor], device: torch.device
    ) -> None:
        """Run the function once, so that kernels are compiled and chosen, and capture it."""
        self._inputs = [part.to(device, copy=True) for part in inputs]
        aside: torch.cuda.Stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            work(*self._inputs)
        torch.cuda.current_stream().wait_stream(aside)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._output = work(*self._inputs)

    def __call__(self, *inputs: Tensor) -> Tensor:
        """Return the output for other inputs, valid until the next call."""
        for buffer, part in zip(self._inputs, inputs, strict=True):
            buffer.copy_(part)
        self._graph.replay()
        return self._output


class CudaGraphCache:
    """Graphs by key; the least recently used are dropped."""

    def __init__(self) -> None:
        self._known: OrderedDict[object, CudaGraph] = OrderedDict()

    def run(
        self, key: object, work: Callable[..., Tensor], *inputs: Tensor, device: torch.device
    ) -> Tensor:
        """Run the graph of a key, which identifies work and shapes; capture it if necessary."""
        if key not in self._known:
            self._known[key] = CudaGraph(work, inputs, device)
        self._known.move_to_end(key)
        while len(self._known) > _MAX_GRAPHS:
            self._known.popitem(last=False)
        return self._known[key](*inputs)
