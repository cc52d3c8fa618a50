"""The parts of a T5: attention, feed-forward layers, blocks.

A block knows only its weights; what it attends to comes as functions. So the same blocks serve
whole sequences under a mask and single steps over caches.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from jpr.errors import ConfigError
from jpr.models.config import T5Config

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Mixes values (…, heads, d_kv) by the agreement of queries with keys, all of the same shape."""
AttendCross = Callable[[Tensor], Tensor]
"""Mixes what is in memory by its agreement with queries (…, heads, d_kv), to the same shape."""


def check_dtype(dtype: torch.dtype) -> None:
    """Refuse a precision in which T5 overflows."""
    if dtype == torch.float16:
        raise ConfigError("T5 overflows in float16; run it in bfloat16 or float32")


def working_dtype(x: Tensor) -> torch.dtype:
    """Return the precision in which layers multiply, which must not be float16."""
    kind = x.device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype
    check_dtype(dtype)
    return dtype


def uses_inference_kernels(x: Tensor) -> bool:
    """Tell whether our own kernels take over: inference in bfloat16 on a GPU."""
    plain = not torch.is_grad_enabled() and not torch.is_autocast_enabled("cuda")
    return plain and x.is_cuda and x.dtype is torch.bfloat16


def uses_training_kernels(x: Tensor) -> bool:
    """Tell whether our kernels with gradients take over: rows (N, d), bfloat16 on a GPU.

    The decoder's few tokens, (B, T, d), are not worth starting them.
    """
    many = x.is_cuda and x.ndim == 2 and torch.is_grad_enabled()
    return many and working_dtype(x) is torch.bfloat16


def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout: float = 0.0) -> Tensor:
    """Mix values (B, T, heads, d_kv); the mask is added to the scores, which T5 does not scale."""
    q, k, v = (part.transpose(1, 2) for part in (q, k, v))
    mixed = F.scaled_dot_product_attention(q, k, v, mask, dropout, scale=1.0)
    return mixed.transpose(1, 2)


class RelativeBias(nn.Module):
    """What is added to attention scores for the distance from query to key, alike in all layers."""

    def __init__(
        self, buckets: int, heads: int, farthest: int, both_ways: bool, std: float = 1.0
    ) -> None:
        """Look both ways, as an encoder does, or only back; all `farthest` away is alike."""
        super().__init__()
        self.both_ways, self.farthest = both_ways, farthest
        self.weight = nn.Parameter(torch.empty(buckets, heads))
        nn.init.normal_(self.weight, std=std)

    @classmethod
    def of(cls, config: T5Config, both_ways: bool) -> "RelativeBias":
        """Make a T5's."""
        return cls(
            config.relative_attention_num_buckets,
            config.num_heads,
            config.relative_attention_max_distance,
            both_ways,
            config.d_model**-0.5,
        )

    def forward(self, distance: Tensor) -> Tensor:
        """Map distances (…), negative where the key stands before the query, to (…, heads)."""
        return F.embedding(self.buckets(distance), self.weight)

    def square(self, length: int) -> Tensor:
        """Return (heads, T, T): what is added for each query and key of a sequence."""
        reach = torch.arange(1 - length, length, device=self.weight.device)
        # Laid out head by head: attention kernels take no other mask and fall back to slow ones.
        by_distance: Tensor = self(reach).T.contiguous()  # (heads, 2T - 1)
        return by_distance.unfold(1, length, 1).flip(1)

    def buckets(self, distance: Tensor) -> Tensor:
        """Map distances to rows of the weight; far ones share theirs, by the logarithm."""
        n = len(self.weight) // 2 if self.both_ways else len(self.weight)
        away = distance.abs() if self.both_ways else (-distance).clamp(min=0)
        exact = n // 2
        ratio = torch.log(away.clamp(min=1).float() / exact) / math.log(self.farthest / exact)
        far = (exact + (ratio * (n - exact)).long()).clamp(max=n - 1)
        bucket = torch.where(away < exact, away, far)
        return bucket + n * (distance > 0) if self.both_ways else bucket


class FeedForward(nn.Module):
    """Two layers with a ReLU between, or with a gate by GELU."""

    def __init__(self, config: T5Config, dropout: float) -> None:
        super().__init__()
        self.dropout, self.gated = dropout, config.is_gated
        self.up = _linear(config.d_model, config.d_ff * (2 if self.gated else 1))
        self.down = _linear(config.d_ff, config.d_model)

    def forward(self, x: Tensor) -> Tensor:
        """Map (…, d) to (…, f), of which `down` makes d again."""
        if uses_inference_kernels(x):
            return self._fused(x.view(-1, x.shape[-1])).view(*x.shape[:-1], -1)
        wide: Tensor = self.up(x)
        if uses_training_kernels(x):
            from jpr.models.kernels.training import activated

            return activated(wide, self.gated, self.dropout if self.training else 0.0)
        if self.gated:
            gate, wide = wide.chunk(2, dim=-1)
            wide = F.gelu(gate, approximate="tanh") * wide
        else:
            wide = F.relu(wide, inplace=True)
        return F.dropout(wide, self.dropout, self.training)

    def _fused(self, x: Tensor) -> Tensor:
        """Do the same for rows (N, d) in fewer passes over memory."""
        if self.gated:
            from jpr.models.kernels.inference import gated_gelu

            return gated_gelu(self.up(x))
        none = x.new_zeros(self.up.out_features)
        return torch._addmm_activation(none, x, self.up.weight.t(), use_gelu=False)


class SelfAttention(nn.Module):
    """Queries, keys and values of the same tokens, by one matrix."""

    def __init__(self, config: T5Config) -> None:
        super().__init__()
        self.heads = config.num_heads
        self.qkv = _linear(config.d_model, 3 * config.inner)
        self.o = _linear(config.inner, config.d_model)
        _start_queries(self.qkv.weight[: config.inner], config)

    def forward(self, x: Tensor, attend: Attend) -> Tensor:
        """Map (…, d) to (…, heads · d_kv), of which `o` makes d again."""
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).unbind(-3)
        return attend(q, k, v).flatten(-2)


class CrossAttention(nn.Module):
    """Queries of the decoder's tokens, keys and values of the memory, by a matrix each."""

    def __init__(self, config: T5Config) -> None:
        super().__init__()
        self.heads = config.num_heads
        self.q, self.k, self.v = (_linear(config.d_model, config.inner) for _ in range(3))
        self.o = _linear(config.inner, config.d_model)
        _start_queries(self.q.weight, config)

    def forward(self, x: Tensor, attend: AttendCross) -> Tensor:
        """Map (…, d) to (…, heads · d_kv), of which `o` makes d again."""
        q: Tensor = self.q(x).unflatten(-1, (self.heads, -1))
        return attend(q).flatten(-2)

    def remember(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values of a memory (…, d), each (…, heads, d_kv)."""
        k: Tensor = self.k(memory).unflatten(-1, (self.heads, -1))
        v: Tensor = self.v(memory).unflatten(-1, (self.heads, -1))
        return k, v


class EncoderBlock(nn.Module):
    """Self-attention and a feed-forward layer, each added to what its norm was taken of."""

    def __init__(self, config: T5Config, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.norm1, self.attention = T5Norm(config), SelfAttention(config)
        self.norm2, self.feed = T5Norm(config), FeedForward(config, dropout)

    def forward(self, x: Tensor, attend: Attend) -> Tensor:
        """Map (…, d) to the same; without gradients, in place."""
        dropout = self.dropout if self.training else 0.0
        x = _added(x, self.attention.o, self.attention(self.norm1(x), attend), dropout)
        return _added(x, self.feed.down, self.feed(self.norm2(x)), dropout)


class DecoderBlock(nn.Module):
    """The same with attention to the memory between."""

    def __init__(self, config: T5Config, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.norm1, self.attention = T5Norm(config), SelfAttention(config)
        self.norm2, self.cross = T5Norm(config), CrossAttention(config)
        self.norm3, self.feed = T5Norm(config), FeedForward(config, dropout)

    def forward(self, x: Tensor, attend_self: Attend, attend_cross: AttendCross) -> Tensor:
        """Map (…, d) to the same; without gradients, in place."""
        dropout = self.dropout if self.training else 0.0
        x = _added(x, self.attention.o, self.attention(self.norm1(x), attend_self), dropout)
        x = _added(x, self.cross.o, self.cross(self.norm2(x), attend_cross), dropout)
        return _added(x, self.feed.down, self.feed(self.norm3(x)), dropout)


def _added(x: Tensor, linear: nn.Linear, inner: Tensor, dropout: float) -> Tensor:
    """Return x plus what a layer makes of `inner`; the sum is part of the product if it can be."""
    if uses_training_kernels(x):
        from jpr.models.kernels.training import added

        return added(x, linear(inner), dropout)
    if torch.is_grad_enabled() or not x.dtype == inner.dtype == linear.weight.dtype:
        return x + F.dropout(linear(inner), dropout, dropout > 0)
    x.view(-1, x.shape[-1]).addmm_(inner.reshape(-1, inner.shape[-1]), linear.weight.t())
    return x


class T5Norm(nn.RMSNorm):
    """A norm by the root of the mean square, without a shift."""

    def __init__(self, config: T5Config) -> None:
        super().__init__(config.d_model, eps=config.layer_norm_epsilon)

    def forward(self, x: Tensor) -> Tensor:
        """Map (…, d) to the same."""
        assert self.eps is not None
        if uses_training_kernels(x):
            from jpr.models.kernels import training

            return training.rms_norm(x, self.weight, self.eps, working_dtype(x))
        if not uses_inference_kernels(x):
            return super().forward(x)
        from jpr.models.kernels.inference import rms_norm

        return rms_norm(x.view(-1, x.shape[-1]), self.weight, self.eps).view(x.shape)


def _linear(inputs: int, outputs: int) -> nn.Linear:
    """Return a layer without bias whose outputs begin as large as its inputs."""
    layer = nn.Linear(inputs, outputs, bias=False)
    nn.init.normal_(layer.weight, std=inputs**-0.5)
    return layer


def _start_queries(weight: Tensor, config: T5Config) -> None:
    """Begin with queries smaller by √d_kv, since scores are not divided by it."""
    nn.init.normal_(weight, std=(config.d_model * config.d_kv) ** -0.5)
