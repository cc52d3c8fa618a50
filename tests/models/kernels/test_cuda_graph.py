"""CUDA graphs of the encoder and of decoder steps against the plain path."""

import numpy as np
import pytest
import torch

from jpr.models.bert import Bert
from jpr.models.candidates import PackedCandidates
from jpr.models.config import BertConfig, T5Config
from jpr.models.decoder_cache import CachePool, PrefixScorer
from jpr.models.heads import PointerHead
from jpr.models.joint import JointModel
from jpr.models.t5 import T5, T5Decoder
from tests.models.kernels.compare import far

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
SHAPES = [
    T5Config(500, 128, 64, 256, 3, 2, 2),
    T5Config(500, 96, 32, 200, 3, 3, 2, feed_forward_proj="gated-gelu", tie_word_embeddings=False),
]


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
    expected = exact.encode(these).memory
    assert far(half.encode(these).memory, expected) < 0.012
    pool = CachePool(half)
    for counts in ((25, 15), (3, 9), (25, 15)):  # the last by a recording that was used already
        found = pool.encode(given(counts))
        plain = half.encode(given(counts))
        assert far(found.memory, plain.memory) < 1e-3
        assert far(found.marked, plain.marked) < 1e-3


@pytest.mark.parametrize("shape", SHAPES)
@torch.inference_mode()
def test_recorded_steps_are_the_plain_ones(shape: T5Config) -> None:
    exact, half = models(shape)
    expected = [(0, ()), (1, ()), (0, (3,)), (0, (4,)), (1, (2, 5, 6)), (0, (3, 7)), (0, (4, 9))]
    pool = CachePool(half)
    for counts in ((25, 15), (7, 22), (25, 15)):  # a room is used again
        these = given(counts)
        plain = PrefixScorer(exact, exact.encode(these))(
            [w for w in expected if max(w[1], default=0) < 7]
        )
        found = PrefixScorer(half, pool.encode(these), pool)(
            [w for w in expected if max(w[1], default=0) < 7]
        )
        for a, b in zip(found, plain, strict=True):
            assert (np.isfinite(a) == np.isfinite(b)).all()
            assert np.abs(a[np.isfinite(a)] - b[np.isfinite(b)]).max() < 0.05


@torch.inference_mode()
def test_a_recorded_bert_is_the_plain_one() -> None:
    torch.manual_seed(0)
    bert = Bert(BertConfig(500, 64, 2, 2, 128, 512))
    decoder = T5Decoder(T5Config(1, 64, 32, 128, 1, 2, 2))
    model = JointModel(bert, decoder, PointerHead(64), "passages").cuda().bfloat16().eval()
    pool, these = CachePool(model), given((25, 15))
    plain = model.encode(these)
    for _ in range(2):
        assert far(pool.encode(these).marked, plain.marked) < 1e-3
    exact = JointModel(bert, decoder, PointerHead(64), "passages").float().cuda()
    exact.load_state_dict(model.state_dict())
    assert far(plain.marked, exact.encode(these).marked) < 0.02
