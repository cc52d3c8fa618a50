"""A moving average of weights, which often generalises better than the weights themselves."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor


class Average:
    """The average with a memory of m: m times itself and 1 − m times the weights, at every step.

    Early on the memory is shorter, (1 + n) / (10 + n) after n steps, so that it does not dwell on
    the weights of the beginning. With a memory of 0 there is no average, and it costs nothing.
    """

    def __init__(self, weights: Sequence[Tensor], memory: float) -> None:
        """Begin with the weights as they are."""
        self._memory, self._steps = memory, 0
        self.values = [weight.detach().clone() for weight in weights] if memory else []

    @torch.no_grad()
    def update(self, weights: Sequence[Tensor]) -> None:
        """Take the weights after another step into account."""
        self._steps += 1
        if self.values:
            memory = min(self._memory, (1 + self._steps) / (10 + self._steps))
            torch._foreach_lerp_(self.values, [w.detach() for w in weights], 1 - memory)

    def restore(self, values: Sequence[Tensor], steps: int) -> None:
        """Go on from an average that was saved after so many steps."""
        self._steps = steps
        for own, saved in zip(self.values, values, strict=True):
            own.copy_(saved)

    @contextmanager
    def instead_of(self, weights: Sequence[Tensor]) -> Iterator[None]:
        """Put the average in the place of the weights for a while."""
        kept = [weight.detach().clone() for weight in weights] if self.values else []
        _fill(weights, self.values)
        try:
            yield
        finally:
            _fill(weights, kept)


@torch.no_grad()
def _fill(weights: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    for weight, value in zip(weights, values, strict=False):
        weight.copy_(value)
