# mypy: disable-error-code="no-untyped-def, untyped-decorator, misc, no-untyped-call"
"""Triton kernels for inference: one pass over memory where torch takes several.

In bfloat16, without gradients; `jpr.models.kernels.dispatch` says where they apply. What each is
worth is in `docs/performance.md`.
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
        x, weight, out, None, n, eps, d, triton.next_power_of_2(d), 2, num_warps=4
    )
    return out


@triton.jit(do_not_specialize=["n"])
def _rms_norm(
    x_ptr, weight_ptr, out_ptr, scales_ptr, n, eps,
    d: tl.constexpr, wide: tl.constexpr, rows: tl.constexpr,
):  # fmt: skip
    """Normalize some rows; in training, also store their scales, and round only once."""
    row = tl.program_id(0) * rows + tl.arange(0, rows)
    column = tl.arange(0, wide)
    mask = (row < n)[:, None] & (column < d)[None, :]
    offset = row.to(tl.int64)[:, None] * d + column[None, :]
    x = tl.load(x_ptr + offset, mask=mask, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + column, mask=column < d, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(x * x, 1) / d + eps)
    out = x * scale[:, None]
    if scales_ptr is None:
        out = out.to(out_ptr.dtype.element_ty).to(tl.float32)
    out = out * weight[None, :]
    tl.store(out_ptr + offset, out.to(out_ptr.dtype.element_ty), mask=mask)
    if scales_ptr is not None:
        tl.store(scales_ptr + row, scale, mask=row < n)


def gated_gelu(wide: Tensor) -> Tensor:
    """Map rows (N, 2f) of gates and values to (N, f)."""
    n, f = wide.shape[0], wide.shape[1] // 2
    out = wide.new_empty(n, f)
    _gated_gelu[(n, triton.cdiv(f, 1024))](wide, out, f, 1024, num_warps=4)
    return out


@triton.jit
def _gated_gelu(wide_ptr, out_ptr, f, size: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * size + tl.arange(0, size)
    mask = column < f
    gate = tl.load(wide_ptr + row * 2 * f + column, mask=mask, other=0.0).to(tl.float32)
    value = tl.load(wide_ptr + row * 2 * f + f + column, mask=mask, other=0.0).to(tl.float32)
    inner = 0.7978845608028654 * (gate + 0.044715 * gate * gate * gate)
    tanh = 1 - 2 / (1 + tl.exp(2 * inner))
    out = (0.5 * gate * (1 + tanh)).to(out_ptr.dtype.element_ty).to(tl.float32) * value
    tl.store(out_ptr + row * f + column, out.to(out_ptr.dtype.element_ty), mask=mask)


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
    q_ptr, k_ptr, v_ptr, tiles_ptr, out_ptr, ends_ptr, step,
    heads: tl.constexpr, d: tl.constexpr, reach: tl.constexpr, tile: tl.constexpr,
):  # fmt: skip
    head, row, first = tl.program_id(1), tl.program_id(2), tl.program_id(0) * tile
    start = tl.load(ends_ptr + row).to(tl.int64)
    length = (tl.load(ends_ptr + row + 1) - start).to(tl.int32)
    if first < length:
        column, inner = tl.arange(0, d), tl.arange(0, tile)
        token = first + inner
        mask = (token < length)[:, None]
        base = start * step + head * d
        q = tl.load(q_ptr + base + token[:, None] * step + column[None, :], mask=mask, other=0.0)
        key_ptr = k_ptr + base + column[:, None]
        value_ptr = v_ptr + base + column[None, :]
        square = inner[:, None] * tile + inner[None, :]
        squares_ptr = tiles_ptr + head * (2 * reach + 1) * tile * tile + square
        mixed = tl.zeros([tile, d], dtype=tl.float32)
        top = tl.full([tile], -1e30, dtype=tl.float32)
        total = tl.zeros([tile], dtype=tl.float32)
        whole = length // tile * tile
        for key in range(0, whole, tile):
            bias_ptr = squares_ptr + _between(key, first, reach, tile)
            mixed, top, total = _mix(
                q, key_ptr, value_ptr, bias_ptr, mixed, top, total, key, step, length, tile, False
            )
        if whole < length:
            bias_ptr = squares_ptr + _between(whole, first, reach, tile)
            mixed, top, total = _mix(
                q, key_ptr, value_ptr, bias_ptr, mixed, top, total, whole, step, length, tile, True
            )
        offset = (start + token) * (heads * d) + head * d
        out = (mixed / total[:, None]).to(out_ptr.dtype.element_ty)
        tl.store(out_ptr + offset[:, None] + column[None, :], out, mask=mask)


@triton.jit
def _between(key, first, reach: tl.constexpr, tile: tl.constexpr):
    """Return the offset of the bias tile of these keys and queries."""
    squares = tl.minimum(tl.maximum((key - first) // tile, -reach), reach) + reach
    return squares * (tile * tile)


@triton.jit
def _mix(
    q, k_ptr, v_ptr, bias_ptr, mixed, top, total, key, step, length,
    tile: tl.constexpr, last: tl.constexpr,
):  # fmt: skip
    """Add one tile of keys: the softmax so far is rescaled as its maximum grows."""
    token = key + tl.arange(0, tile)
    bias = tl.load(bias_ptr).to(tl.float32)
    if last:
        mask = token < length
        k = tl.load(k_ptr + token[None, :] * step, mask=mask[None, :], other=0.0)
        v = tl.load(v_ptr + token[:, None] * step, mask=mask[:, None], other=0.0)
        scores = tl.where(mask[None, :], tl.dot(q, k, bias), -1e30)
    else:
        k = tl.load(k_ptr + token[None, :] * step)
        v = tl.load(v_ptr + token[:, None] * step)
        scores = tl.dot(q, k, bias)
    peak = tl.maximum(top, tl.max(scores, 1) * 1.4426950408889634)  # log2(e)
    probs = tl.exp2(scores * 1.4426950408889634 - peak[:, None])
    rescale = tl.exp2(top - peak)
    mixed = tl.dot(probs.to(v.dtype), v, mixed * rescale[:, None])
    return mixed, peak, total * rescale + tl.sum(probs, 1)


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
    q_ptr, k_ptr, v_ptr, cache_ptr, path_ptr, bias_ptr, out_ptr, step, path_step,
    heads: tl.constexpr, d: tl.constexpr, wide: tl.constexpr,
):  # fmt: skip
    row, head = tl.program_id(0), tl.program_id(1)
    column, depth = tl.arange(0, d), tl.arange(0, wide)
    length = tl.load(path_ptr + row * path_step)
    here = row * step + head * d + column
    q = tl.load(q_ptr + here).to(tl.float32)
    k, v = tl.load(k_ptr + here), tl.load(v_ptr + here)
    own = tl.load(path_ptr + row * path_step + 1 + length).to(tl.int64)
    size: tl.constexpr = heads * d
    tl.store(cache_ptr + own * 2 * size + head * d + column, k)
    tl.store(cache_ptr + own * 2 * size + size + head * d + column, v)
    before = depth < length
    slot = tl.load(path_ptr + row * path_step + 1 + depth, mask=before, other=0).to(tl.int64)
    keys_ptr = cache_ptr + slot[:, None] * 2 * size + head * d + column[None, :]
    keys = tl.load(keys_ptr, mask=before[:, None], other=0.0).to(tl.float32)
    values = tl.load(keys_ptr + size, mask=before[:, None], other=0.0).to(tl.float32)
    bias = tl.load(bias_ptr + (length - depth) * heads + head, mask=before, other=0.0)
    scores = tl.where(before, tl.sum(keys * q[None, :], 1) + bias, float("-inf"))
    own_score = tl.sum(q * k.to(tl.float32)) + tl.load(bias_ptr + head)
    peak = tl.maximum(tl.max(scores), own_score)
    probs, own_prob = tl.exp(scores - peak), tl.exp(own_score - peak)
    mixed = tl.sum(values * probs[:, None], 0) + v.to(tl.float32) * own_prob
    mixed = mixed / (tl.sum(probs) + own_prob)
    tl.store(out_ptr + (row * heads + head) * d + column, mixed.to(out_ptr.dtype.element_ty))


def softmax_(scores: Tensor, lengths: Tensor) -> Tensor:
    """Replace scores (Q, R, M) by their softmax over each question's first `lengths` (Q,)."""
    questions, rows, longest = scores.shape
    _softmax[(rows, questions)](scores, lengths, rows, longest, 4096, num_warps=8)
    return scores


@triton.jit
def _softmax(scores_ptr, lengths_ptr, rows, longest, size: tl.constexpr):
    row, question = tl.program_id(0), tl.program_id(1)
    length = tl.load(lengths_ptr + question)
    scores_ptr += (question * rows + row).to(tl.int64) * longest
    offset = tl.arange(0, size)
    top = tl.full([size], float("-inf"), dtype=tl.float32)
    total = tl.zeros([size], dtype=tl.float32)
    for first in range(0, length, size):
        mask = first + offset < length
        x = tl.load(scores_ptr + first + offset, mask=mask, other=float("-inf")).to(tl.float32)
        peak = tl.maximum(top, x)
        safe = tl.where(peak == float("-inf"), 0.0, peak)
        total = total * tl.exp(top - safe) + tl.exp(x - safe)
        top = peak
    peak = tl.max(top)
    scale = 1 / tl.sum(total * tl.exp(top - peak))
    for first in range(0, longest, size):
        mask = first + offset < longest
        x = tl.load(scores_ptr + first + offset, mask=first + offset < length, other=float("-inf"))
        prob = tl.exp(x.to(tl.float32) - peak) * scale
        tl.store(scores_ptr + first + offset, prob.to(scores_ptr.dtype.element_ty), mask=mask)
