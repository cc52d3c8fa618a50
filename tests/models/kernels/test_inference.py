"""Inference kernels against torch's operations."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from jpr.models.config import T5Config
from jpr.models.decoder_cache import CachePool, PrefixScorer
from jpr.models.kernels import dispatch, inference
from jpr.models.t5 import T5Encoder
from jpr.models.t5_blocks import RelativeBias
from tests.models.joint_models import candidates, pointer_over_t5
from tests.models.kernels.compare import DEVICE, DTYPE, GPU, MARKS, ends_of, far, random

pytestmark = MARKS
NEAR = 0.01 if GPU else 1e-5
SHAPE = T5Config(50, 48, 16, 80, 1, 2, 1, relative_attention_max_distance=40)


def test_the_norm() -> None:
    x, weight = random(37, 96).to(DTYPE), random(96, seed=1).to(DTYPE)
    expected = F.rms_norm(x.float(), (96,), weight.float(), 1e-6)
    assert far(inference.rms_norm(x, weight, 1e-6), expected) < NEAR


def test_the_gate() -> None:
    wide = (random(11, 2 * 1500) * 3).to(DTYPE)
    gate, value = wide.float().chunk(2, dim=-1)
    assert far(inference.gated_gelu(wide), F.gelu(gate, approximate="tanh") * value) < NEAR


def test_softmax_over_different_lengths() -> None:
    scores, lengths = (random(3, 5, 9000) * 4).to(DTYPE), torch.tensor([9000, 1, 4097])
    mask = (torch.arange(9000)[None, None] < lengths[:, None, None]).to(DEVICE)
    expected = scores.float().masked_fill(~mask, -torch.inf).softmax(-1)
    found = inference.softmax_(scores.clone(), lengths.int().to(DEVICE))
    assert far(found, expected) < NEAR
    assert not found.masked_select(~mask).any()


@torch.inference_mode()
def test_attention_over_packed_rows() -> None:
    lengths = [1, 64, 65, 200, 17]
    relative = RelativeBias.of(SHAPE, both_ways=True).to(DEVICE)
    q, k, v = (random(sum(lengths), 3, 2, 16) * 0.5).to(DTYPE).unbind(1)
    tiles = relative.tiles(inference.TILE, DTYPE)
    found = inference.attend(q, k, v, tiles, ends_of(lengths), max(lengths))
    parts = (torch.split(x, lengths) for x in (q, k, v, found))
    for a, b, c, ours in zip(*parts, strict=True):
        a, b, c = (part.float().transpose(0, 1) for part in (a, b, c))
        bias = relative.square(a.shape[1])
        expected = F.scaled_dot_product_attention(a, b, c, bias, scale=1.0).transpose(0, 1)
        assert far(ours, expected) < NEAR


@torch.inference_mode()
def test_attention_to_the_beginnings_of_prefixes() -> None:
    """Against the plain path, which also writes keys and values into the cache."""
    cache, bias = random(9, 2, 2, 16).to(DTYPE), random(4, 2, seed=1)
    q, k, v = random(3, 3, 2, 16, seed=2).to(DTYPE).unbind(1)
    paths = [[0, 3, -1, -1, -1], [2, 0, 1, 4, -1], [3, 0, 1, 2, 5]]  # length, then places
    path = torch.tensor(paths, dtype=torch.int32, device=DEVICE)
    plain = cache.clone()
    expected = dispatch.prefix_attention(q.float(), k, v, plain, path, bias)
    assert far(inference.prefix_attention(q, k, v, cache, path, bias), expected) < NEAR
    assert torch.equal(cache, plain)


@pytest.mark.parametrize("feed", ["relu", "gated-gelu"])
@torch.inference_mode()
def test_the_encoder_over_packed_rows(feed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    shape = T5Config(50, 48, 16, 80, 1, 2, 1, feed_forward_proj=feed)
    encoder = T5Encoder(shape).to(DEVICE)
    lengths, ids = [70, 5], torch.arange(75, device=DEVICE) % 50
    expected = encoder.forward_packed(ids, torch.tensor(lengths, device=DEVICE))
    encoder = encoder.to(DTYPE)
    monkeypatch.setattr(dispatch, "uses_inference_kernels", lambda x: True)
    assert far(encoder.forward_varlen(ids, ends_of(lengths), 70), expected) < 2 * NEAR


class Eager:
    """Stands in for a CUDA graph, which only a GPU can capture: it computes again each time."""

    def __init__(
        self, work: Callable[..., Tensor], inputs: Sequence[Tensor], device: torch.device
    ) -> None:
        self._work, self._device = work, device
        work(*inputs)

    def __call__(self, *inputs: Tensor) -> Tensor:
        return self._work(*(part.to(self._device) for part in inputs))


@pytest.mark.skipif(GPU, reason="a GPU captures graphs: test_cuda_graph.py")
@torch.inference_mode()
def test_steps_of_fixed_shapes_by_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """The path of a GPU, from candidates to log-probabilities, but for the capture of graphs."""
    model = pointer_over_t5()
    pairs = [(0, ()), (1, ()), (0, (3,)), (1, (2, 4, 0)), (0, (3, 1)), (0, (5, 2))]
    batches = [candidates((6, 5)), candidates((7, 5), seed=1), candidates((6, 5))]
    plain = [PrefixScorer(model, model.encode(one))(pairs) for one in batches]
    monkeypatch.setattr(dispatch, "uses_inference_kernels", lambda x: True)
    monkeypatch.setattr("jpr.models.kernels.cuda_graph.CudaGraph", Eager)
    pool = CachePool(model)
    for one, expected in zip(batches, plain, strict=True):
        found = PrefixScorer(model, pool.encode(one), pool)(pairs)
        np.testing.assert_allclose(np.concatenate(found), np.concatenate(expected), atol=1e-4)
