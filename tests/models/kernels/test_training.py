"""Kernels with gradients against torch's operations: each output and each gradient."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from jpr.models.bert import Bert
from jpr.models.config import BertConfig, T5Config
from jpr.models.padding import length_mask, pad_rows
from jpr.models.t5 import T5Encoder
from jpr.models.t5_blocks import RelativeBias
from tests.models.kernels.compare import DEVICE, DTYPE, GPU, MARKS, NEAR, ends_of, far, random

pytestmark = MARKS
LENGTHS = [1, 64, 200, 0, 7]
FEW = [70, 5]
# The bias no longer changes two tiles away, and the longest row has four.
SHAPE = T5Config(50, 48, 16, 80, 1, 2, 1, relative_attention_max_distance=40)
HEADS, N = 2, sum(LENGTHS)


def check(
    ours: Callable[..., Tensor], theirs: Callable[..., Tensor], *given: Tensor, near: float = NEAR
) -> None:
    """Compare outputs and all gradients; torch gets the same numbers in 32 bits."""
    mine = [part.detach().requires_grad_() for part in given]
    exact = [part.detach().float().requires_grad_() for part in given]
    found, expected = ours(*mine), theirs(*exact)
    slope = random(*expected.shape, seed=9)
    assert far(found, expected) < near
    torch.autograd.backward(found, slope.to(found.dtype))
    torch.autograd.backward(expected, slope)
    for a, b in zip(mine, exact, strict=True):
        assert far(a.grad, b.grad) < near


@pytest.mark.parametrize("wide", [96, 768])
def test_the_norm(wide: int) -> None:
    from jpr.models.kernels.training import rms_norm

    check(
        lambda x, weight: rms_norm(x, weight, 1e-6, DTYPE),
        lambda x, weight: F.rms_norm(x, (wide,), weight, 1e-6),
        random(2101 if GPU else 37, wide),
        random(wide, seed=1),
    )


@pytest.mark.parametrize("gated", [False, True])
def test_the_activation(gated: bool) -> None:
    from jpr.models.kernels.training import activation

    def plain(wide: Tensor) -> Tensor:
        if not gated:
            return F.relu(wide)
        gate, value = wide.chunk(2, dim=-1)
        return F.gelu(gate, approximate="tanh") * value

    check(lambda wide: activation(wide, gated, 0.0), plain, (random(11, 1300) * 3).to(DTYPE))


def test_the_sum() -> None:
    from jpr.models.kernels.training import add_dropout

    check(
        lambda x, y: add_dropout(x, y, 0.0), torch.add, random(13, 600), random(13, 600).to(DTYPE)
    )


def relative() -> RelativeBias:
    torch.manual_seed(1)
    found = RelativeBias.of(SHAPE, both_ways=True).to(DEVICE)
    torch.nn.init.normal_(found.weight)
    return found


def attended(qkv: Tensor, of: RelativeBias, kept: Tensor, scale: float) -> Tensor:
    """Attend row by row with torch's operations; `kept` (heads, N, T) says what is not dropped."""
    rows, first = [], 0
    for length in filter(None, LENGTHS):
        row = slice(first, first + length)
        q, k, v = qkv[row].permute(1, 2, 0, 3)
        shares = (q @ k.mT + of.square(length)).softmax(-1) * kept[:, row, :length] * scale
        rows.append((shares @ v).transpose(0, 1))
        first += length
    return torch.cat(rows)


def ours(qkv: Tensor, of: RelativeBias, dropout: float) -> Tensor:
    from jpr.models.kernels import inference, training

    q, k, v = qkv.unbind(1)
    torch.manual_seed(3)
    tiles = of.tiles(inference.TILE, torch.float32)
    return training.attend(q, k, v, tiles, ends_of(LENGTHS), max(LENGTHS), dropout)


def check_attention(d: int, dropout: float, kept: Tensor) -> None:
    """Compare what is attended to, and the gradients of queries, keys, values and the bias."""
    of, other = relative(), relative()
    qkv = (random(N, 3, HEADS, d) * d**-0.25).to(DTYPE)
    check(
        lambda x: ours(x, of, dropout), lambda x: attended(x, other, kept, 1 / (1 - dropout)), qkv
    )
    assert far(of.weight.grad, other.weight.grad) < NEAR


@pytest.mark.parametrize("d", [16, 64])
def test_attention_of_rows_end_to_end(d: int) -> None:
    check_attention(d, 0.0, torch.ones(HEADS, N, max(LENGTHS), device=DEVICE))


def test_an_mpnet_of_rows_end_to_end() -> None:
    """Compare with its padded rows: what comes out, and the gradients of two of its weights."""
    torch.manual_seed(8)
    config = BertConfig(50, 32, 1, 2, 40, 80, model_type="mpnet", pad_token_id=1)
    bert = Bert(config).to(DEVICE).train()
    ids = torch.randint(5, 50, (sum(FEW),), device=DEVICE)
    lengths = torch.tensor(FEW, device=DEVICE)
    slope, found = random(sum(FEW), 32, seed=9), []
    for packed in (True, False):
        bert.zero_grad()
        with torch.autocast(DEVICE, DTYPE, enabled=GPU and packed):
            if packed:
                out = bert.forward_varlen(ids, ends_of(lengths.tolist()), max(FEW))
            else:
                places = length_mask(lengths, max(FEW))
                out = bert(pad_rows(ids, places), lengths)[places]
        torch.autograd.backward(out, slope.to(out.dtype))
        grads = [weight.grad for weight in (bert.relative.weight, bert.words.weight)]
        found.append((out, *(None if grad is None else grad.clone() for grad in grads)))
    for ours, theirs in zip(*found, strict=True):
        assert far(ours, theirs) < (0.03 if GPU else NEAR)


def dropped(dropout: float, d: int) -> Tensor:
    """Return which shares are kept (heads, N, T), by values that separate d keys at a time."""
    from jpr.models.kernels import inference, training

    nothing = torch.zeros(N, HEADS, d, device=DEVICE, dtype=DTYPE)
    tiles = torch.zeros(HEADS, 3, inference.TILE, inference.TILE, device=DEVICE)
    place = torch.cat([torch.arange(length) for length in LENGTHS]).to(DEVICE)
    found = []
    for first in range(0, max(LENGTHS), d):
        v = (place[:, None, None] == first + torch.arange(d, device=DEVICE)).to(DTYPE)
        v = v.expand(-1, HEADS, -1).contiguous()
        torch.manual_seed(3)
        ends, longest = ends_of(LENGTHS), max(LENGTHS)
        found.append(training.attend(nothing, nothing, v, tiles, ends, longest, dropout) > 0)
    return torch.cat(found, dim=-1)[..., : max(LENGTHS)].transpose(0, 1).float()


def test_attention_drops_the_same_in_all_gradients() -> None:
    kept = dropped(0.3, 64)
    pairs = sum(length**2 for length in LENGTHS) * HEADS
    assert abs(float(kept.sum()) / pairs - 0.7) < 0.01
    check_attention(32, 0.3, kept)


@pytest.mark.parametrize("which", ["added", "relu", "gated"])
def test_other_dropout_keeps_the_mean_and_its_mask(which: str) -> None:
    from jpr.models.kernels import training

    def work(x: Tensor) -> Tensor:
        torch.manual_seed(4)
        if which == "added":
            return training.add_dropout(torch.zeros_like(x), x, 0.25)
        return training.activation(x, which == "gated", 0.25)

    given = torch.ones(40, 2000, device=DEVICE, dtype=DTYPE).requires_grad_()
    out = work(given)
    whole = float(F.gelu(torch.ones(()), approximate="tanh")) if which == "gated" else 1.0
    assert abs(float(out.detach().float().mean()) / whole - 1) < 0.01
    assert torch.equal(out, work(given))
    torch.autograd.backward(out, torch.ones_like(out))
    assert given.grad is not None
    grads = given.grad.chunk(2, dim=1) if which == "gated" else [given.grad]
    for grad in grads:
        assert torch.equal(grad != 0, out != 0)
    torch.manual_seed(5)
    assert not torch.equal(out, training.add_dropout(torch.zeros_like(out), out, 0.25))


def test_what_is_dropped_is_even() -> None:
    """Neighbours, rows and columns are dropped independently of each other."""
    from jpr.models.kernels import training

    torch.manual_seed(6)
    ones = torch.ones(256, 1024, device=DEVICE)
    kept = (training.add_dropout(torch.zeros_like(ones), ones, 0.5) > 0).float() * 2 - 1
    assert kept.mean(0).abs().max() < 5 / 256**0.5
    assert kept.mean(1).abs().max() < 5 / 1024**0.5
    for shift in ((0, 1), (1, 0), (1, 1), (0, 64), (64, 0)):
        both = kept * kept.roll(shift, (0, 1))
        assert abs(float(both.mean())) < 5 / ones.numel() ** 0.5


@contextmanager
def kernels_or_not(ours: bool, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Train by the kernels, which a CPU would not, or by torch's operations."""
    with monkeypatch.context() as patch:
        name = "jpr.models.kernels.dispatch.uses_training_kernels"
        patch.setattr(name, lambda x: ours and x.ndim == 2)
        yield


def trained(encoder: T5Encoder, ids: Tensor, lengths: Tensor, half: bool) -> dict[str, Tensor]:
    """Return the output and all gradients."""
    encoder.zero_grad()
    with torch.autocast(DEVICE, torch.bfloat16, enabled=half):
        out = encoder.forward_packed(ids, lengths)
    torch.autograd.backward(out, random(*out.shape, seed=9).to(out.dtype))
    grads = {name: weight.grad for name, weight in encoder.named_parameters()}
    return {"out": out.detach()} | {name: grad for name, grad in grads.items() if grad is not None}


@pytest.mark.parametrize("feed", ["relu", "gated-gelu"])
def test_the_encoder_has_the_gradients_of_the_plain_path(
    feed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In bfloat16, as nearly as torch's operations have them."""
    torch.manual_seed(0)
    encoder = T5Encoder(replace(SHAPE, feed_forward_proj=feed)).to(DEVICE)
    lengths, ids = torch.tensor(FEW, device=DEVICE), torch.arange(sum(FEW), device=DEVICE) % 50
    with kernels_or_not(False, monkeypatch):
        expected = trained(encoder, ids, lengths, half=False)
        plain = trained(encoder, ids, lengths, half=GPU)
    with kernels_or_not(True, monkeypatch):
        found = trained(encoder, ids, lengths, half=GPU)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert far(found[name], value) < NEAR + 1.5 * far(plain[name], value), name


def test_checkpoints_drop_the_same_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    encoder = T5Encoder(SHAPE, dropout=0.2).to(DEVICE).train()
    lengths, ids = torch.tensor(FEW, device=DEVICE), torch.arange(75, device=DEVICE) % 50
    found = []
    with kernels_or_not(True, monkeypatch):
        for encoder.checkpointing in (False, True):
            torch.manual_seed(7)
            found.append(trained(encoder, ids, lengths, half=GPU))
    for name, value in found[0].items():
        assert far(found[1][name], value) < 1e-3, name
