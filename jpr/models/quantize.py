"""Quantization of matrices to 8 bits, from a sample of their inputs.

Inputs of a matrix have a fixed scale, so that a text's vector does not depend on its batch.
Channels with large inputs are divided, and their weights multiplied, by the same factor
(smoothing), as far as that lowers the error. Weights are rounded one input after the other, each
compensating the errors of those before, as in GPTQ. They keep to ±64: sums of two products then fit
16 bits, which CPUs without VNNI need to be exact.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from jpr.errors import DataError
from jpr.models.bert import Bert
from jpr.models.padding import parts
from jpr.models.t5 import T5Encoder

LARGEST_WEIGHT = 64
LARGEST_INPUT = 255
_SMOOTHINGS = (0.0, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
_TOKENS_TRIED = 1024
_DAMPING = 0.01
_BLOCK = 64
_VALUES_HELD = 2**29  # inputs of matrices that are kept at once, 4 bytes each


@dataclass(frozen=True, slots=True)
class InputScale:
    """How the inputs of a matrix become integers."""

    smoothing: Tensor
    step: float
    zero: int

    def codes(self, inputs: Tensor) -> Tensor:
        """Return the integers, less the zero point."""
        codes = (inputs / self.smoothing / self.step).round() + self.zero
        return codes.clamp(0, LARGEST_INPUT) - self.zero


@dataclass(frozen=True, slots=True)
class QuantizedMatrix:
    """Integer codes, a step for each output, and the scale of the inputs."""

    codes: Tensor
    steps: Tensor
    scale: InputScale


def quantize_matrices(
    encoder: Bert | T5Encoder, sample: Sequence[Sequence[int]]
) -> dict[str, QuantizedMatrix]:
    """Quantize every matrix of an encoder, by its inputs for a sample of token ids."""
    if not sample:
        raise DataError("scales cannot be found without a sample of texts; give some passages")
    matrices = {n: module for n, module in encoder.named_modules() if isinstance(module, nn.Linear)}
    held = np.array([sum(map(len, sample)) * matrix.in_features for matrix in matrices.values()])
    found: dict[str, QuantizedMatrix] = {}
    for group in parts(held, _VALUES_HELD):  # each runs the sample once
        names = list(matrices)[group]
        inputs = _inputs(encoder, {name: matrices[name] for name in names}, sample)
        with torch.inference_mode():
            for name in names:
                found[name] = quantize_matrix(torch.cat(inputs.pop(name)), matrices[name].weight)
    return found


def _inputs(
    encoder: Bert | T5Encoder, matrices: Mapping[str, nn.Linear], sample: Sequence[Sequence[int]]
) -> dict[str, list[Tensor]]:
    """Return the inputs of matrices for the texts of a sample."""
    inputs: dict[str, list[Tensor]] = {name: [] for name in matrices}

    def keep(name: str, _: nn.Module, given: tuple[Tensor]) -> None:
        inputs[name].append(given[0].detach().flatten(0, -2))

    hooks = [
        matrix.register_forward_pre_hook(partial(keep, name)) for name, matrix in matrices.items()
    ]
    with torch.enable_grad():  # without, blocks may bypass their layers
        for row in sample:  # separately, since padding would count too
            encoder.forward_packed(torch.tensor(row), torch.tensor([len(row)]))
    for handle in hooks:
        handle.remove()
    return inputs


def quantize_matrix(inputs: Tensor, weight: Tensor) -> QuantizedMatrix:
    """Quantize a matrix (out, in) for its inputs (tokens, in), with the best smoothing."""
    some = inputs[:: max(1, len(inputs) // _TOKENS_TRIED)]
    exact = some @ weight.T

    def error(scale: InputScale) -> float:
        smooth = weight * scale.smoothing
        steps = _steps(smooth)
        codes = (smooth / steps[:, None]).round()
        found = (scale.codes(some) @ codes.T) * steps * scale.step
        return float((found - exact).square().mean())

    scale = min((_scale(inputs, weight, power) for power in _SMOOTHINGS), key=error)
    smooth = weight * scale.smoothing
    steps = _steps(smooth)
    return QuantizedMatrix(_round(smooth / steps[:, None], scale.codes(inputs)), steps, scale)


def _scale(inputs: Tensor, weight: Tensor, power: float) -> InputScale:
    """Return the scale for smoothing to some power of the channels' largest inputs."""
    largest = inputs.abs().amax(dim=0).clamp(min=1e-4)
    heaviest = weight.abs().amax(dim=0).clamp(min=1e-4)
    smoothing = largest**power / heaviest ** (1 - power) if power else torch.ones_like(largest)
    smooth = inputs / smoothing
    low, high = min(0.0, float(smooth.min())), max(1e-6, float(smooth.max()))
    step = (high - low) / LARGEST_INPUT
    return InputScale(smoothing, step, round(-low / step))


def _steps(weight: Tensor) -> Tensor:
    """Return the step of each row of a matrix."""
    return (weight.abs().amax(dim=1) / LARGEST_WEIGHT).clamp(min=1e-12)


def _round(weight: Tensor, inputs: Tensor) -> Tensor:
    """Round a matrix (out, in) so that its products with the inputs (tokens, in) change least.

    Input by input; the error of one is subtracted from the following ones, as far as the inputs
    correlate. Those beyond a block of inputs get the errors of the whole block at once.
    """
    gram = inputs.double().T @ inputs.double()
    gram += torch.eye(len(gram)) * (_DAMPING * gram.diagonal().mean() + 1e-6)
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(gram))
    share = torch.linalg.cholesky(inverse, upper=True).float()
    rest = weight.T.clone()  # (in, out)
    codes, errors = torch.empty_like(rest), torch.empty_like(rest)
    for first in range(0, len(rest), _BLOCK):
        last = min(first + _BLOCK, len(rest))
        for row in range(first, last):
            codes[row] = rest[row].round().clamp(-LARGEST_WEIGHT, LARGEST_WEIGHT)
            errors[row] = (rest[row] - codes[row]) / share[row, row]
            rest[row + 1 : last] -= share[row, row + 1 : last, None] * errors[row]
        rest[last:] -= share[first:last, last:].T @ errors[first:last]
    return codes.T
