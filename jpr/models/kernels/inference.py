# mypy: disable-error-code="no-untyped-def, untyped-decorator, misc, no-untyped-call"
"""Triton kernels for inference: one pass over memory where torch takes several.

In bfloat16, without gradients; `jpr.models.kernels.dispatch` chooses between them and torch. What
each is worth is in `docs/performance.md`.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

TILE = 64  # queries and keys that one program of `attend` processes at a time


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Divide rows (N, d) by their root mean square and multiply with weights (d,)."""
    out = torch.empty_like(x)
    n, d = x.shape
    _rms_norm[(triton.cdiv(n, 2),)](
        x, weight, out, n, eps, d, triton.next_power_of_2(d), 2, num_warps=4
    )
    return out


@triton.jit
def _rms_norm(
    x_at, weight_at, out_at, n, eps, d: tl.constexpr, wide: tl.constexpr, rows: tl.constexpr
):
    row = tl.program_id(0) * rows + tl.arange(0, rows)
    column = tl.arange(0, wide)
    there = (row < n)[:, None] & (column < d)[None, :]
    place = row.to(tl.int64)[:, None] * d + column[None, :]
    x = tl.load(x_at + place, mask=there, other=0.0).to(tl.float32)
    weight = tl.load(weight_at + column, mask=column < d, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(x * x, 1) / d + eps)
    out = (x * scale[:, None]).to(out_at.dtype.element_ty).to(tl.float32) * weight[None, :]
    tl.store(out_at + place, out.to(out_at.dtype.element_ty), mask=there)


def gated_gelu(wide: Tensor) -> Tensor:
    """Map rows (N, 2f) of gates and values to (N, f)."""
    n, f = wide.shape[0], wide.shape[1] // 2
    out = wide.new_empty(n, f)
    _gated_gelu[(n, triton.cdiv(f, 1024))](wide, out, f, 1024, num_warps=4)
    return out


@triton.jit
def _gated_gelu(wide_at, out_at, f, size: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * size + tl.arange(0, size)
    there = column < f
    gate = tl.load(wide_at + row * 2 * f + column, mask=there, other=0.0).to(tl.float32)
    value = tl.load(wide_at + row * 2 * f + f + column, mask=there, other=0.0).to(tl.float32)
    inner = 0.7978845608028654 * (gate + 0.044715 * gate * gate * gate)
    tanh = 1 - 2 / (1 + tl.exp(2 * inner))
    out = (0.5 * gate * (1 + tanh)).to(out_at.dtype.element_ty).to(tl.float32) * value
    tl.store(out_at + row * f + column, out.to(out_at.dtype.element_ty), mask=there)


def attend(q: Tensor, k: Tensor, v: Tensor, tiles: Tensor, ends: Tensor, longest: int) -> Tensor:
    """Attend within each of the concatenated rows, whose boundaries are `ends` (B + 1,).

    Queries, keys and values (N, heads, d_kv) to the same; equal strides, as of one product. `tiles`
    are `RelativeBias.tiles`.
    """
    n, heads, d = q.shape
    out = q.new_empty(n, heads, d)
    grid = (triton.cdiv(longest, TILE), heads, len(ends) - 1)
    _attend[grid](
        q, k, v, tiles, out, ends, q.stride(0), heads, d, tiles.shape[1] // 2, TILE,
        num_warps=4, num_stages=2,
    )  # fmt: skip
    return out


@triton.jit
def _attend(
    q_at, k_at, v_at, tiles_at, out_at, ends_at, step,
    heads: tl.constexpr, d: tl.constexpr, reach: tl.constexpr, tile: tl.constexpr,
):  # fmt: skip
    head, row, first = tl.program_id(1), tl.program_id(2), tl.program_id(0) * tile
    start = tl.load(ends_at + row).to(tl.int64)
    length = (tl.load(ends_at + row + 1) - start).to(tl.int32)
    if first < length:
        column, inner = tl.arange(0, d), tl.arange(0, tile)
        token = first + inner
        there = (token < length)[:, None]
        base = start * step + head * d
        q = tl.load(q_at + base + token[:, None] * step + column[None, :], mask=there, other=0.0)
        keys_at = k_at + base + column[:, None]
        values_at = v_at + base + column[None, :]
        square = inner[:, None] * tile + inner[None, :]
        squares_at = tiles_at + head * (2 * reach + 1) * tile * tile + square
        mixed = tl.zeros([tile, d], dtype=tl.float32)
        top = tl.full([tile], -1e30, dtype=tl.float32)
        total = tl.zeros([tile], dtype=tl.float32)
        whole = length // tile * tile
        for key in range(0, whole, tile):
            bias_at = squares_at + _between(key, first, reach, tile)
            mixed, top, total = _mix(
                q, keys_at, values_at, bias_at, mixed, top, total, key, step, length, tile, False
            )
        if whole < length:
            bias_at = squares_at + _between(whole, first, reach, tile)
            mixed, top, total = _mix(
                q, keys_at, values_at, bias_at, mixed, top, total, whole, step, length, tile, True
            )
        place = (start + token) * (heads * d) + head * d
        out = (mixed / total[:, None]).to(out_at.dtype.element_ty)
        tl.store(out_at + place[:, None] + column[None, :], out, mask=there)


@triton.jit
def _between(key, first, reach: tl.constexpr, tile: tl.constexpr):
    """Return the offset of the bias tile of these keys and queries."""
    squares = tl.minimum(tl.maximum((key - first) // tile, -reach), reach) + reach
    return squares * (tile * tile)


@triton.jit
def _mix(
    q, k_at, v_at, bias_at, mixed, top, total, key, step, length,
    tile: tl.constexpr, last: tl.constexpr,
):  # fmt: skip
    """Add one tile of keys: the softmax so far is rescaled as its maximum grows."""
    token = key + tl.arange(0, tile)
    bias = tl.load(bias_at).to(tl.float32)
    if last:
        there = token < length
        k = tl.load(k_at + token[None, :] * step, mask=there[None, :], other=0.0)
        v = tl.load(v_at + token[:, None] * step, mask=there[:, None], other=0.0)
        scores = tl.where(there[None, :], tl.dot(q, k, bias), -1e30)
    else:
        k = tl.load(k_at + token[None, :] * step)
        v = tl.load(v_at + token[:, None] * step)
        scores = tl.dot(q, k, bias)
    peak = tl.maximum(top, tl.max(scores, 1) * 1.4426950408889634)  # log2(e)
    shares = tl.exp2(scores * 1.4426950408889634 - peak[:, None])
    fade = tl.exp2(top - peak)
    mixed = tl.dot(shares.to(v.dtype), v, mixed * fade[:, None])
    return mixed, peak, total * fade + tl.sum(shares, 1)


def prefix_attention(
    q: Tensor, k: Tensor, v: Tensor, cache: Tensor, path: Tensor, bias: Tensor
) -> Tensor:
    """Attend to the ancestors of prefixes; see `dispatch.prefix_attention`."""
    n, heads, d = q.shape
    out = q.new_empty(n, heads, d)
    wide = max(16, triton.next_power_of_2(path.shape[1] - 1))
    _prefix_attention[(n, heads)](
        q, k, v, cache, path, bias, out, q.stride(0), path.stride(0), heads, d, wide, num_warps=2
    )
    return out


@triton.jit
def _prefix_attention(
    q_at, k_at, v_at, cache_at, path_at, bias_at, out_at, step, path_step,
    heads: tl.constexpr, d: tl.constexpr, wide: tl.constexpr,
):  # fmt: skip
    row, head = tl.program_id(0), tl.program_id(1)
    column, depth = tl.arange(0, d), tl.arange(0, wide)
    length = tl.load(path_at + row * path_step)
    here = row * step + head * d + column
    q = tl.load(q_at + here).to(tl.float32)
    k, v = tl.load(k_at + here), tl.load(v_at + here)
    own = tl.load(path_at + row * path_step + 1 + length).to(tl.int64)
    size: tl.constexpr = heads * d
    tl.store(cache_at + own * 2 * size + head * d + column, k)
    tl.store(cache_at + own * 2 * size + size + head * d + column, v)
    before = depth < length
    place = tl.load(path_at + row * path_step + 1 + depth, mask=before, other=0).to(tl.int64)
    keys_at = cache_at + place[:, None] * 2 * size + head * d + column[None, :]
    keys = tl.load(keys_at, mask=before[:, None], other=0.0).to(tl.float32)
    values = tl.load(keys_at + size, mask=before[:, None], other=0.0).to(tl.float32)
    bias = tl.load(bias_at + (length - depth) * heads + head, mask=before, other=0.0)
    scores = tl.where(before, tl.sum(keys * q[None, :], 1) + bias, float("-inf"))
    own_score = tl.sum(q * k.to(tl.float32)) + tl.load(bias_at + head)
    peak = tl.maximum(tl.max(scores), own_score)
    shares, own_share = tl.exp(scores - peak), tl.exp(own_score - peak)
    mixed = tl.sum(values * shares[:, None], 0) + v.to(tl.float32) * own_share
    mixed = mixed / (tl.sum(shares) + own_share)
    tl.store(out_at + (row * heads + head) * d + column, mixed.to(out_at.dtype.element_ty))


def softmax_(scores: Tensor, lengths: Tensor) -> Tensor:
    """Replace scores (Q, R, M) by their softmax over each question's first `lengths` (Q,)."""
    questions, rows, longest = scores.shape
    _softmax[(rows, questions)](scores, lengths, rows, longest, 4096, num_warps=8)
    return scores


@triton.jit
def _softmax(scores_at, lengths_at, rows, longest, size: tl.constexpr):
    row, question = tl.program_id(0), tl.program_id(1)
    length = tl.load(lengths_at + question)
    scores_at += (question * rows + row).to(tl.int64) * longest
    place = tl.arange(0, size)
    top = tl.full([size], float("-inf"), dtype=tl.float32)
    total = tl.zeros([size], dtype=tl.float32)
    for first in range(0, length, size):
        there = first + place < length
        x = tl.load(scores_at + first + place, mask=there, other=float("-inf")).to(tl.float32)
        peak = tl.maximum(top, x)
        safe = tl.where(peak == float("-inf"), 0.0, peak)
        total = total * tl.exp(top - safe) + tl.exp(x - safe)
        top = peak
    peak = tl.max(top)
    scale = 1 / tl.sum(total * tl.exp(top - peak))
    for first in range(0, longest, size):
        there = first + place < longest
        x = tl.load(scores_at + first + place, mask=first + place < length, other=float("-inf"))
        share = tl.exp(x.to(tl.float32) - peak) * scale
        tl.store(scores_at + first + place, share.to(scores_at.dtype.element_ty), mask=there)
