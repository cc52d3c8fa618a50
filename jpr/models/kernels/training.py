# mypy: disable-error-code="no-untyped-def, untyped-decorator, misc, no-untyped-call"
# Triton's functions take what no type says
"""Triton kernels for training, with gradients.

Nothing of the size of all pairs of tokens is written: scores, attention weights and dropout masks
are computed again where gradients need them. A dropout mask is a hash of a seed and the position.
"""

from collections.abc import Callable

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd import Function

from jpr.models.kernels.inference import TILE, _between, _rms_norm

LOG2_E = tl.constexpr(1.4426950408889634)
_PROGRAMS = 1024  # programs that a GPU runs at once, roughly


def _dropout_arguments(dropout):
    """Return a seed, the least hash that is kept, and the scale of what is kept."""
    seed = int(torch.randint(2**31 - 1, (), device="cpu")) if dropout else 0
    return seed, int(dropout * 2**32), 1 / (1 - dropout)


@triton.jit
def _keep(seed, row, column, least: tl.constexpr):
    """Return what dropout keeps, by a hash: Philox would take longer than all products.

    Rows are mixed well (Wellons' lowbias32), since there are few of them; columns less.
    """
    x = row.to(tl.uint32) + seed
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    x = x ^ (x >> 16) ^ ((column + seed).to(tl.uint32) * 0x9E3779B9)
    x = x * 0x7FEB352D
    return (x ^ (x >> 15)) * 0x846CA68B >= least


class _Attend(Function):
    """Attend as `inference.attend` does, then drop out some of the attention weights.

    `tiles` should be float32, in which gradients of all layers are then summed.
    """

    @staticmethod
    def forward(ctx, q, k, v, tiles, ends, longest, dropout):
        n, heads, d = q.shape
        out = q.new_empty(n, heads, d)
        log_sums = q.new_empty(heads, n, dtype=torch.float32)
        tiles_per_row, tiles = triton.cdiv(longest, TILE), tiles.to(q.dtype)
        seed, least, scale = _dropout_arguments(dropout)
        ctx.given = n, tiles_per_row, seed, heads, d, tiles.shape[1] // 2, least, scale, TILE
        ctx.how = {"num_warps": 4 if d <= 64 else 8, "num_stages": 2}
        ctx.save_for_backward(q, k, v, tiles, ends, out, log_sums)
        _attend[((len(ends) - 1) * heads * tiles_per_row,)](
            q, k, v, tiles, out, log_sums, ends, q.stride(0), *ctx.given, **ctx.how
        )
        return out

    @staticmethod
    def backward(ctx, grad):
        q, k, v, tiles, ends, out, log_sums = ctx.saved_tensors
        grad, mean = grad.contiguous(), torch.empty_like(log_sums)
        to_q, to_k, to_v = (torch.empty_like(out) for _ in range(3))
        rows, (_, tiles_per_row, _, heads, *_) = len(ends) - 1, ctx.given
        grid, step = (rows * heads * tiles_per_row,), q.stride(0)
        _query_backward[grid](
            q, k, v, tiles, out, grad, to_q, log_sums, mean, ends, step, *ctx.given, **ctx.how
        )
        turned = tiles.mT.contiguous()
        _key_backward[grid](
            q, k, v, turned, grad, to_k, to_v, log_sums, mean, ends, step, *ctx.given, **ctx.how
        )
        if not ctx.needs_input_grad[3]:
            return to_q, to_k, to_v, None, None, None, None
        splits = max(1, min(rows, 2 * _PROGRAMS // (heads * tiles.shape[1])))
        sums = tiles.new_empty(splits, *tiles.shape, dtype=torch.float32)
        _bias_backward[(splits * heads * tiles.shape[1],)](
            q, k, v, tiles, grad, sums, log_sums, mean, ends, step, rows, splits,
            *ctx.given, num_warps=8, num_stages=2,
        )  # fmt: skip
        return to_q, to_k, to_v, sums.sum(0), None, None, None


@triton.jit(do_not_specialize=["n", "tiles_per_row", "seed"])
def _attend(
    q_ptr, k_ptr, v_ptr, tiles_ptr, out_ptr, log_sums_ptr, ends_ptr, step, n, tiles_per_row, seed,
    heads: tl.constexpr, d: tl.constexpr, reach: tl.constexpr, least: tl.constexpr,
    scale: tl.constexpr, tile: tl.constexpr,
):  # fmt: skip
    start, length, head, first = _program(ends_ptr, tiles_per_row, heads, tile)
    if first >= length:
        return
    inner, base = tl.arange(0, tile), start * step + head * d
    token = first + inner
    q = _rows(q_ptr + base, token, length, step, d)
    tiles_ptr += head * (2 * reach + 1) * tile * tile
    mixed = tl.zeros([tile, d], dtype=tl.float32)
    top = tl.full([tile], -1e30, dtype=tl.float32)
    total = tl.zeros([tile], dtype=tl.float32)
    for at in range(0, length, tile):
        key = at + inner
        k = _rows(k_ptr + base, key, length, step, d)
        v = _rows(v_ptr + base, key, length, step, d)
        bias = _bias(tiles_ptr + _between(at, first, reach, tile), (key < length)[None, :], tile)
        scores = tl.dot(q, tl.trans(k), bias) * LOG2_E
        peak = tl.maximum(top, tl.max(scores, 1))
        probs = tl.exp2(scores - peak[:, None])
        rescale = tl.exp2(top - peak)
        total = total * rescale + tl.sum(probs, 1)
        keep = _keep(seed, ((start + token) * heads + head)[:, None], key[None, :], least)
        probs = tl.where(keep, probs, 0.0).to(v.dtype)
        mixed = tl.dot(probs, v, mixed * rescale[:, None])
        top = peak
    _store(out_ptr, mixed * (scale / total)[:, None], start, token, length, head, heads, d)
    tl.store(log_sums_ptr + head * n + start + token, top + tl.log2(total), mask=token < length)


@triton.jit(do_not_specialize=["n", "tiles_per_row", "seed"])
def _query_backward(
    q_ptr, k_ptr, v_ptr, tiles_ptr, mixed_ptr, grad_ptr, out_ptr, log_sums_ptr, mean_ptr, ends_ptr,
    step, n, tiles_per_row, seed,
    heads: tl.constexpr, d: tl.constexpr, reach: tl.constexpr, least: tl.constexpr,
    scale: tl.constexpr, tile: tl.constexpr,
):  # fmt: skip
    """Compute the gradient of queries, and each one's mean gradient for the other kernels."""
    start, length, head, first = _program(ends_ptr, tiles_per_row, heads, tile)
    if first >= length:
        return
    inner, base = tl.arange(0, tile), start * step + head * d
    token = first + inner
    own: tl.constexpr = heads * d
    q = _rows(q_ptr + base, token, length, step, d)
    grad = _rows(grad_ptr + start * own + head * d, token, length, own, d)
    mixed = _rows(mixed_ptr + start * own + head * d, token, length, own, d)
    mean = tl.sum(grad.to(tl.float32) * mixed.to(tl.float32), 1)
    offset = head * n + start + token
    tl.store(mean_ptr + offset, mean, mask=token < length)
    log_sums = tl.load(log_sums_ptr + offset, mask=token < length, other=float("inf"))
    tiles_ptr += head * (2 * reach + 1) * tile * tile
    out = tl.zeros([tile, d], dtype=tl.float32)
    for at in range(0, length, tile):
        key = at + inner
        k = _rows(k_ptr + base, key, length, step, d)
        v = _rows(v_ptr + base, key, length, step, d)
        bias = _bias(tiles_ptr + _between(at, first, reach, tile), (key < length)[None, :], tile)
        keep = _keep(seed, ((start + token) * heads + head)[:, None], key[None, :], least)
        probs = tl.exp2(tl.dot(q, tl.trans(k), bias) * LOG2_E - log_sums[:, None])
        grad_probs = tl.where(keep, tl.dot(grad, tl.trans(v)), 0.0) * scale
        out = tl.dot((probs * (grad_probs - mean[:, None])).to(k.dtype), k, out)
    _store(out_ptr, out, start, token, length, head, heads, d)


@triton.jit(do_not_specialize=["n", "tiles_per_row", "seed"])
def _key_backward(
    q_ptr, k_ptr, v_ptr, tiles_ptr, grad_ptr, to_k_ptr, to_v_ptr, log_sums_ptr, mean_ptr, ends_ptr,
    step, n, tiles_per_row, seed,
    heads: tl.constexpr, d: tl.constexpr, reach: tl.constexpr, least: tl.constexpr,
    scale: tl.constexpr, tile: tl.constexpr,
):  # fmt: skip
    """Compute the gradients of keys and values; all tiles are transposed, keys by queries."""
    start, length, head, first = _program(ends_ptr, tiles_per_row, heads, tile)
    if first >= length:
        return
    inner, base = tl.arange(0, tile), start * step + head * d
    key = first + inner
    own: tl.constexpr = heads * d
    k = _rows(k_ptr + base, key, length, step, d)
    v = _rows(v_ptr + base, key, length, step, d)
    grad_ptr += start * own + head * d
    tiles_ptr += head * (2 * reach + 1) * tile * tile
    to_k = tl.zeros([tile, d], dtype=tl.float32)
    to_v = tl.zeros([tile, d], dtype=tl.float32)
    for at in range(0, length, tile):
        token = at + inner
        q = _rows(q_ptr + base, token, length, step, d)
        grad = _rows(grad_ptr, token, length, own, d)
        offset = head * n + start + token
        log_sums = tl.load(log_sums_ptr + offset, mask=token < length, other=float("inf"))
        mean = tl.load(mean_ptr + offset, mask=token < length, other=0.0)
        bias = _bias(tiles_ptr + _between(first, at, reach, tile), (key < length)[:, None], tile)
        keep = _keep(seed, ((start + token) * heads + head)[None, :], key[:, None], least)
        probs = tl.exp2(tl.dot(k, tl.trans(q), bias) * LOG2_E - log_sums[None, :])
        to_v = tl.dot(tl.where(keep, probs, 0.0).to(q.dtype), grad, to_v)
        grad_probs = tl.where(keep, tl.dot(v, tl.trans(grad)), 0.0) * scale
        to_k = tl.dot((probs * (grad_probs - mean[None, :])).to(q.dtype), q, to_k)
    _store(to_k_ptr, to_k, start, key, length, head, heads, d)
    _store(to_v_ptr, to_v * scale, start, key, length, head, heads, d)


@triton.jit(do_not_specialize=["rows", "splits", "n", "tiles_per_row", "seed"])
def _bias_backward(
    q_ptr, k_ptr, v_ptr, tiles_ptr, grad_ptr, sums_ptr, log_sums_ptr, mean_ptr, ends_ptr,
    step, rows, splits, n, tiles_per_row, seed,
    heads: tl.constexpr, d: tl.constexpr, reach: tl.constexpr, least: tl.constexpr,
    scale: tl.constexpr, tile: tl.constexpr,
):  # fmt: skip
    """Sum the gradients of all tiles at one distance, over one split of the rows."""
    wide: tl.constexpr = 2 * reach + 1
    own: tl.constexpr = heads * d
    between = tl.program_id(0) % wide - reach
    head = tl.program_id(0) // wide % heads
    far = tl.maximum(between, -between)
    inner = tl.arange(0, tile)
    tiles_ptr += head * wide * tile * tile + (between + reach) * tile * tile
    total = tl.zeros([tile, tile], dtype=tl.float32)
    for row in range(tl.program_id(0) // wide // heads, rows, splits):
        start = tl.load(ends_ptr + row).to(tl.int64)
        length = (tl.load(ends_ptr + row + 1) - start).to(tl.int32)
        base, count = start * step + head * d, (length + tile - 1) // tile
        farthest = tl.where(far == reach, count - 1, far)
        for apart in range(far, farthest + 1):
            for at in range(0, count - apart):
                token = (at + tl.where(between < 0, apart, 0)) * tile + inner
                key = (at + tl.where(between < 0, 0, apart)) * tile + inner
                q = _rows(q_ptr + base, token, length, step, d)
                k = _rows(k_ptr + base, key, length, step, d)
                v = _rows(v_ptr + base, key, length, step, d)
                grad = _rows(grad_ptr + start * own + head * d, token, length, own, d)
                offset = head * n + start + token
                log_sums = tl.load(log_sums_ptr + offset, mask=token < length, other=float("inf"))
                mean = tl.load(mean_ptr + offset, mask=token < length, other=0.0)
                bias = _bias(tiles_ptr, (key < length)[None, :], tile)
                keep = _keep(seed, ((start + token) * heads + head)[:, None], key[None, :], least)
                probs = tl.exp2(tl.dot(q, tl.trans(k), bias) * LOG2_E - log_sums[:, None])
                grad_probs = tl.where(keep, tl.dot(grad, tl.trans(v)), 0.0) * scale
                total += probs * (grad_probs - mean[:, None])
    sums_ptr += tl.program_id(0).to(tl.int64) * tile * tile
    tl.store(sums_ptr + inner[:, None] * tile + inner[None, :], total)


@triton.jit
def _program(ends_ptr, tiles_per_row, heads: tl.constexpr, tile: tl.constexpr):
    """Return the start and length of a program's row, its head and its first token."""
    at = tl.program_id(0)
    row = at // tiles_per_row // heads
    start = tl.load(ends_ptr + row).to(tl.int64)
    length = (tl.load(ends_ptr + row + 1) - start).to(tl.int32)
    return start, length, at // tiles_per_row % heads, at % tiles_per_row * tile


@triton.jit
def _rows(at, token, length, step, d: tl.constexpr):
    """Load the vectors of tokens, zeros after the last."""
    offset = token[:, None] * step + tl.arange(0, d)[None, :]
    return tl.load(at + offset, mask=(token < length)[:, None], other=0.0)


@triton.jit
def _store(at, vectors, start, token, length, head, heads: tl.constexpr, d: tl.constexpr):
    """Store the vectors of tokens, none after the last."""
    offset = ((start + token) * heads + head)[:, None] * d + tl.arange(0, d)[None, :]
    tl.store(at + offset, vectors.to(at.dtype.element_ty), mask=(token < length)[:, None])


@triton.jit
def _bias(at, mask, tile: tl.constexpr):
    """Load a tile of the bias, −∞ for absent keys."""
    inner = tl.arange(0, tile)
    bias = tl.load(at + inner[:, None] * tile + inner[None, :]).to(tl.float32)
    return tl.where(mask, bias, float("-inf"))


class _RmsNorm(Function):
    """Divide rows (N, d) by their root mean square and multiply with weights (d,)."""

    @staticmethod
    def forward(ctx, x, weight, eps, dtype):
        n, d = x.shape
        x, out = x.contiguous(), torch.empty_like(x, dtype=dtype)
        scales = x.new_empty(n, dtype=torch.float32)
        ctx.save_for_backward(x, weight, scales)
        ctx.shape = d, triton.next_power_of_2(d), 2
        _rms_norm[(triton.cdiv(n, 2),)](x, weight, out, scales, n, eps, *ctx.shape, num_warps=4)
        return out

    @staticmethod
    def backward(ctx, grad):
        x, weight, scales = ctx.saved_tensors
        n, d = x.shape
        out, programs = torch.empty_like(x), min(_PROGRAMS, triton.cdiv(n, 2))
        sums = x.new_empty(programs, d, dtype=torch.float32)
        _rms_norm_backward[(programs,)](
            x, weight, scales, grad.contiguous(), out, sums, n, programs, *ctx.shape, num_warps=4
        )
        return out, sums.sum(0).to(weight.dtype), None, None


@triton.jit(do_not_specialize=["n", "programs"])
def _rms_norm_backward(
    x_ptr, weight_ptr, scales_ptr, grad_ptr, out_ptr, sums_ptr, n, programs,
    d: tl.constexpr, wide: tl.constexpr, rows: tl.constexpr,
):  # fmt: skip
    """Compute the gradient of some rows, and their part of the weight's."""
    column = tl.arange(0, wide)
    weight = tl.load(weight_ptr + column, mask=column < d, other=0.0).to(tl.float32)
    total = tl.zeros([wide], dtype=tl.float32)
    for first in range(tl.program_id(0) * rows, n, programs * rows):
        row = first + tl.arange(0, rows)
        mask = (row < n)[:, None] & (column < d)[None, :]
        offset = row.to(tl.int64)[:, None] * d + column[None, :]
        scale = tl.load(scales_ptr + row, mask=row < n, other=0.0)[:, None]
        x = tl.load(x_ptr + offset, mask=mask, other=0.0).to(tl.float32) * scale
        grad = tl.load(grad_ptr + offset, mask=mask, other=0.0).to(tl.float32)
        total += tl.sum(grad * x, 0)
        grad = grad * weight[None, :]
        out = (grad - x * (tl.sum(grad * x, 1) / d)[:, None]) * scale
        tl.store(out_ptr + offset, out.to(out_ptr.dtype.element_ty), mask=mask)
    tl.store(sums_ptr + tl.program_id(0) * d + column, total, mask=column < d)


class _Activation(Function):
    """Map rows by ReLU, (N, f) to (N, f), or by gates and values, (N, 2f) to (N, f)."""

    @staticmethod
    def forward(ctx, wide, gated, dropout):
        n, f = wide.shape[0], wide.shape[1] // (2 if gated else 1)
        wide, out = wide.contiguous(), wide.new_empty(n, f)
        ctx.given = n, f, *_dropout_arguments(dropout), gated, 4, 512
        ctx.grid = triton.cdiv(n, 4), triton.cdiv(f, 512)
        _activation[ctx.grid](wide, out, *ctx.given, num_warps=4)
        ctx.save_for_backward(wide if gated else out)  # a ReLU's output suffices
        return out

    @staticmethod
    def backward(ctx, grad):
        (known,) = ctx.saved_tensors
        out = torch.empty_like(known)
        _activation_backward[ctx.grid](known, grad.contiguous(), out, *ctx.given, num_warps=4)
        return out, None, None


@triton.jit(do_not_specialize=["n", "seed"])
def _activation(
    wide_ptr, out_ptr, n, f, seed,
    least: tl.constexpr, scale: tl.constexpr, gated: tl.constexpr,
    rows: tl.constexpr, size: tl.constexpr,
):  # fmt: skip
    row, column, mask = _block(n, f, rows, size)
    keep = _keep(seed, row, column, least)
    if gated:
        gate = tl.load(wide_ptr + row * 2 * f + column, mask=mask, other=0.0).to(tl.float32)
        value = tl.load(wide_ptr + row * 2 * f + f + column, mask=mask, other=0.0).to(tl.float32)
        out = gate * _gate(gate) * value
    else:
        out = tl.load(wide_ptr + row * f + column, mask=mask, other=0.0).to(tl.float32)
        out = tl.maximum(out, 0.0)
    out = tl.where(keep, out * scale, 0.0)
    tl.store(out_ptr + row * f + column, out.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit(do_not_specialize=["n", "seed"])
def _activation_backward(
    known_ptr, grad_ptr, out_ptr, n, f, seed,
    least: tl.constexpr, scale: tl.constexpr, gated: tl.constexpr,
    rows: tl.constexpr, size: tl.constexpr,
):  # fmt: skip
    row, column, mask = _block(n, f, rows, size)
    grad = tl.load(grad_ptr + row * f + column, mask=mask, other=0.0).to(tl.float32) * scale
    if gated:
        offset = row * 2 * f + column
        gate = tl.load(known_ptr + offset, mask=mask, other=0.0).to(tl.float32)
        value = tl.load(known_ptr + offset + f, mask=mask, other=0.0).to(tl.float32)
        grad = tl.where(_keep(seed, row, column, least), grad, 0.0)
        below = _gate(gate)
        steep = below * (1 - below) * 1.5957691216057308 * (1 + 0.134145 * gate * gate)
        to_gate = grad * value * (below + gate * steep)
        tl.store(out_ptr + offset, to_gate.to(out_ptr.dtype.element_ty), mask=mask)
        to_value = grad * gate * below
        tl.store(out_ptr + offset + f, to_value.to(out_ptr.dtype.element_ty), mask=mask)
    else:
        known = tl.load(known_ptr + row * f + column, mask=mask, other=0.0)
        grad = tl.where(known > 0, grad, 0.0)
        tl.store(out_ptr + row * f + column, grad.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _block(n, f, rows: tl.constexpr, size: tl.constexpr):
    """Return a program's rows (rows, 1) and columns (1, size), and which of them exist."""
    row = (tl.program_id(0) * rows + tl.arange(0, rows)).to(tl.int64)[:, None]
    column = (tl.program_id(1) * size + tl.arange(0, size))[None, :]
    return row, column, (row < n) & (column < f)


@triton.jit
def _gate(x):
    """Return GELU(x) / x, by its approximation with tanh."""
    return 1 / (1 + tl.exp(-1.5957691216057308 * (x + 0.044715 * x * x * x)))


class _AddDropout(Function):
    """Return x + dropout(y), rows (N, d)."""

    @staticmethod
    def forward(ctx, x, y, dropout):
        n, d = x.shape
        x, out = x.contiguous(), torch.empty_like(x)
        ctx.dtype, ctx.given = y.dtype, (n, d, *_dropout_arguments(dropout), 4, 512)
        ctx.grid = triton.cdiv(n, 4), triton.cdiv(d, 512)
        _add_dropout[ctx.grid](x, y.contiguous(), out, True, *ctx.given, num_warps=4)
        return out

    @staticmethod
    def backward(ctx, grad):
        grad = grad.contiguous()
        out = torch.empty_like(grad, dtype=ctx.dtype)
        _add_dropout[ctx.grid](grad, grad, out, False, *ctx.given, num_warps=4)
        return grad, out, None


@triton.jit(do_not_specialize=["n", "seed"])
def _add_dropout(
    x_ptr, y_ptr, out_ptr, add: tl.constexpr, n, d, seed,
    least: tl.constexpr, scale: tl.constexpr, rows: tl.constexpr, size: tl.constexpr,
):  # fmt: skip
    """Return dropout(y), plus x if `add`; without it, this is the gradient of y."""
    row, column, mask = _block(n, d, rows, size)
    offset = row * d + column
    y = tl.load(y_ptr + offset, mask=mask, other=0.0).to(tl.float32)
    out = tl.where(_keep(seed, row, column, least), y * scale, 0.0)
    if add:
        out += tl.load(x_ptr + offset, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + offset, out.to(out_ptr.dtype.element_ty), mask=mask)


attend: Callable[..., Tensor] = _Attend.apply
rms_norm: Callable[..., Tensor] = _RmsNorm.apply
activation: Callable[..., Tensor] = _Activation.apply
add_dropout: Callable[..., Tensor] = _AddDropout.apply
