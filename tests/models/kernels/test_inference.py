"""Our kernels against torch's operations, and the recorded steps against the plain ones."""

from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from jpr.models.bert import Bert, BertConfig
from jpr.models.decoder_cache import CachePool
from jpr.models.joint import JointModel, PackedCandidates, PointerHead
from jpr.models.prefix_scorer import PrefixScorer
from jpr.models.t5 import T5, T5Config, T5Decoder

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
SHAPES = [
    T5Config(500, 128, 64, 256, 3, 2, 2),
    T5Config(500, 96, 32, 200, 3, 3, 2, feed_forward_proj="gated-gelu", tie_word_embeddings=False),
]


def far(found: torch.Tensor, wanted: torch.Tensor) -> float:
    return float((found.float() - wanted.float()).norm() / wanted.float().norm())


def random(*shape: int) -> torch.Tensor:
    chance = torch.Generator("cuda").manual_seed(0)
    return torch.randn(shape, device="cuda", generator=chance).bfloat16()


def test_the_norm() -> None:
    from jpr.models.kernels.inference import rms_norm

    x, weight = random(37, 96), random(96)
    wanted = F.rms_norm(x.float(), (96,), weight.float(), 1e-6)
    assert far(rms_norm(x, weight, 1e-6), wanted) < 0.005


def test_the_gate() -> None:
    from jpr.models.kernels.inference import gated_gelu

    wide = random(11, 2 * 1500) * 3
    gate, value = wide.float().chunk(2, dim=-1)
    assert far(gated_gelu(wide), F.gelu(gate, approximate="tanh") * value) < 0.005


def test_shares_of_unlike_lengths() -> None:
    from jpr.models.kernels.inference import softmax_

    scores, lengths = random(3, 5, 9000) * 4, torch.tensor([9000, 1, 4097], device="cuda")
    there = torch.arange(9000, device="cuda")[None, None] < lengths[:, None, None]
    wanted = scores.float().masked_fill(~there, -torch.inf).softmax(-1)
    found = softmax_(scores.clone(), lengths.int())
    assert far(found, wanted) < 0.005
    assert not found.masked_select(~there).any()


def models(shape: T5Config) -> tuple[JointModel, JointModel]:
    """The same weights in 32 bits and in bfloat16."""
    torch.manual_seed(0)
    t5 = T5(shape)
    exact = JointModel(t5.encoder, t5.decoder, PointerHead(shape.d_model)).cuda().eval()
    other = T5(shape)
    half = JointModel(other.encoder, other.decoder, PointerHead(shape.d_model)).cuda()
    half.load_state_dict(exact.state_dict())
    return exact, half.bfloat16().eval()


def given(counts: tuple[int, ...]) -> PackedCandidates:
    chance = torch.Generator().manual_seed(1)
    lengths = torch.randint(1, 300, (sum(counts),), generator=chance)
    ids = torch.randint(0, 500, (int(lengths.sum()),), generator=chance)
    parts = (ids, lengths, torch.zeros_like(lengths), torch.arange(len(lengths)))
    tokens, long, marks, numbers = (part.cuda() for part in parts)
    prior = torch.zeros(len(long)).cuda()
    return PackedCandidates(tokens, long, counts, marks, marks, numbers, prior)


@pytest.mark.parametrize("shape", SHAPES)
@torch.inference_mode()
def test_the_encoder_in_bfloat16_is_as_near_as_torch_gets(shape: T5Config) -> None:
    torch.backends.cuda.matmul.allow_tf32 = False
    exact, half = models(shape)
    these = given((25, 15))
    wanted = exact.encode(these).memory
    assert far(half.encode(these).memory, wanted) < 0.012
    rooms = CachePool(half)
    for counts in ((25, 15), (3, 9), (25, 15)):  # the last by a recording that was used already
        found = rooms.encode(given(counts))
        plain = half.encode(given(counts))
        assert far(found.memory, plain.memory) < 1e-3
        assert far(found.marked, plain.marked) < 1e-3


@pytest.mark.parametrize("shape", SHAPES)
@torch.inference_mode()
def test_recorded_steps_are_the_plain_ones(shape: T5Config) -> None:
    exact, half = models(shape)
    wanted = [(0, ()), (1, ()), (0, (3,)), (0, (4,)), (1, (2, 5, 6)), (0, (3, 7)), (0, (4, 9))]
    rooms = CachePool(half)
    for counts in ((25, 15), (7, 22), (25, 15)):  # a room is used again
        these = given(counts)
        plain = PrefixScorer(exact, exact.encode(these))(
            [w for w in wanted if max(w[1], default=0) < 7]
        )
        found = PrefixScorer(half, rooms.encode(these), rooms)(
            [w for w in wanted if max(w[1], default=0) < 7]
        )
        for a, b in zip(found, plain, strict=True):
            assert (np.isfinite(a) == np.isfinite(b)).all()
            assert np.abs(a[np.isfinite(a)] - b[np.isfinite(b)]).max() < 0.05


@torch.inference_mode()
def test_attention_of_rows_end_to_end() -> None:
    from jpr.models.kernels import inference
    from jpr.models.t5_blocks import RelativeBias

    relative = RelativeBias.of(SHAPES[0], both_ways=True).cuda()
    lengths = [1, 64, 65, 200, 360, 17]
    n = sum(lengths)
    q, k, v = (random(n, 3, 2, 64) * 0.5).unbind(1)
    ends = torch.tensor(np.append(0, np.cumsum(lengths)), dtype=torch.int32, device="cuda")
    tiles = inference.bias_tiles(relative, torch.bfloat16)
    found = partial(inference.attend, tiles=tiles, ends=ends, longest=360)(q, k, v)
    for first, length in zip(ends.tolist(), lengths, strict=False):
        rows = slice(first, first + length)
        a, b, c = (part[rows].float().transpose(0, 1) for part in (q, k, v))
        bias = relative.square(length)
        wanted = F.scaled_dot_product_attention(a, b, c, bias, scale=1.0).transpose(0, 1)
        assert far(found[rows], wanted) < 0.01


@torch.inference_mode()
def test_a_recorded_bert_is_the_plain_one() -> None:
    torch.manual_seed(0)
    bert = Bert(BertConfig(500, 64, 2, 2, 128, 512))
    decoder = T5Decoder(T5Config(1, 64, 32, 128, 1, 2, 2))
    model = JointModel(bert, decoder, PointerHead(64), "passages").cuda().bfloat16().eval()
    rooms, these = CachePool(model), given((25, 15))
    plain = model.encode(these)
    for _ in range(2):
        assert far(rooms.encode(these).marked, plain.marked) < 1e-3
    exact = JointModel(bert, decoder, PointerHead(64), "passages").float().cuda()
    exact.load_state_dict(model.state_dict())
    assert far(plain.marked, exact.encode(these).marked) < 0.02
