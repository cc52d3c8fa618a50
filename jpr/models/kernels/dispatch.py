"""Where Triton kernels apply, and operations by a kernel if one applies, otherwise by torch.

The kernels need bfloat16 on a GPU: `inference` without gradients and autocast, `training` with
gradients. Triton is imported only there.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from jpr.errors import ConfigError
from jpr.models.padding import length_mask


def check_dtype(dtype: torch.dtype) -> None:
    """Reject a precision in which T5 overflows."""
    if dtype == torch.float16:
        raise ConfigError("T5 overflows in float16; run it in bfloat16 or float32")


def working_dtype(x: Tensor) -> torch.dtype:
    """Return the precision in which layers multiply."""
    kind = x.device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype
    check_dtype(dtype)
    return dtype


def uses_inference_kernels(x: Tensor) -> bool:
    """Whether the inference kernels apply to a tensor."""
    plain = not torch.is_grad_enabled() and not torch.is_autocast_enabled("cuda")
    return plain and x.is_cuda and x.dtype is torch.bfloat16


def uses_training_kernels(x: Tensor) -> bool:
    """Whether the training kernels apply to rows (N, d).

    The decoder's few tokens, (B, T, d), are not worth launching them.
    """
    many = x.is_cuda and x.ndim == 2 and torch.is_grad_enabled()
    return many and working_dtype(x) is torch.bfloat16


def add_linear(x: Tensor, linear: nn.Linear, inner: Tensor, dropout: float) -> Tensor:
    """Return x + dropout(linear(inner)), (…, d); without gradients in place, in one product."""
    if uses_training_kernels(x):
        from jpr.models.kernels import training

        return training.add_dropout(x, linear(inner), dropout)
    if torch.is_grad_enabled() or not x.dtype == inner.dtype == linear.weight.dtype:
        return x + F.dropout(linear(inner), dropout, dropout > 0)
    x.view(-1, x.shape[-1]).addmm_(inner.reshape(-1, inner.shape[-1]), linear.weight.t())
    return x


def prefix_attention(
    q: Tensor, k: Tensor, v: Tensor, cache: Tensor, path: Tensor, bias: Tensor
) -> Tensor:
    """Attend to the ancestors of each prefix and itself, and store the latter in the cache.

    Queries, keys and values (P, heads, d_kv) to the same; `cache` (slots, 2, heads, d_kv); `path`
    (P, 1 + D) has each prefix's length, the slots of its ancestors and, after them, its own, then
    -1; `bias` (D, heads) by distance.
    """
    if uses_inference_kernels(q):
        from jpr.models.kernels import inference

        return inference.prefix_attention(q, k, v, cache, path, bias)
    length, slots = path[:, 0].long(), path[:, 1:].long()
    own = slots.gather(1, length[:, None])[:, 0]
    cache[own] = torch.stack([k, v], dim=1).to(cache.dtype)
    keys, values = cache[slots].float().unbind(2)  # (P, D, heads, d_kv)
    back = length[:, None] - torch.arange(slots.shape[1], device=q.device)  # (P, D)
    scores = torch.einsum("phk,pdhk->pdh", q.float(), keys) + bias[back.clamp(min=0)]
    shares = scores.masked_fill((slots < 0)[..., None], -torch.inf).softmax(1)
    return torch.einsum("pdh,pdhk->phk", shares, values).to(q.dtype)


def masked_softmax(scores: Tensor, lengths: Tensor) -> Tensor:
    """Return the softmax of scores (Q, R, M) over each question's first `lengths` (Q,)."""
    if uses_inference_kernels(scores):
        from jpr.models.kernels import inference

        return inference.softmax_(scores, lengths)
    mask = length_mask(lengths, scores.shape[-1])[:, None]
    return scores.float().masked_fill(~mask, -torch.inf).softmax(-1).to(scores.dtype)
