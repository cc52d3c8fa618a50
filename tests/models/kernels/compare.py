"""What the tests of kernels share: a device, random tensors, distances.

On a GPU in bfloat16; without one in float32 by Triton's interpreter, which the root's conftest.py
turns on. It multiplies numpy arrays, which warn of what a GPU does not.
"""

from importlib.util import find_spec

import pytest
import torch
from torch import Tensor

GPU = torch.cuda.is_available()
DEVICE, DTYPE = ("cuda", torch.bfloat16) if GPU else ("cpu", torch.float32)
NEAR = 0.01 if GPU else 2e-5
MARKS = [
    pytest.mark.skipif(not find_spec("triton"), reason="needs Triton"),
    pytest.mark.filterwarnings("ignore:Conversion of an array with ndim > 0:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered:RuntimeWarning"),
]


def random(*shape: int, seed: int = 0) -> Tensor:
    chance = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=chance).to(DEVICE)


def far(found: Tensor | None, expected: Tensor | None) -> float:
    """Return the relative error."""
    assert found is not None
    assert expected is not None
    a, b = found.detach().float(), expected.detach().float()
    return float((a - b).norm() / b.norm())


def ends_of(lengths: list[int]) -> Tensor:
    """Return where each row ends, from 0 on."""
    ends = torch.tensor([0, *lengths], device=DEVICE).cumsum(0)
    return ends.to(torch.int32)
