"""The layers of a T5.

A block has only weights; what it attends to is given as functions. So the same blocks serve whole
sequences under a mask and single steps over caches.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from jpr.models.config import T5Config
from jpr.models.kernels import dispatch

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Self-attention: queries, keys and values (…, heads, d_kv) to the same shape."""
AttendCross = Callable[[Tensor], Tensor]
"""Attention to the memory: queries (…, heads, d_kv) to the same shape."""


def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout: float = 0.0) -> Tensor:
    """Attend (B, T, heads, d_kv); the mask is added to the scores, which T5 does not scale."""
    q, k, v = (part.transpose(1, 2) for part in (q, k, v))
    mixed = F.scaled_dot_product_attention(q, k, v, mask, dropout, scale=1.0)
    return mixed.transpose(1, 2)


class RelativeBias(nn.Module):
    """Bias added to attention scores by the distance from query to key, shared by all layers."""

    def __init__(
        self, buckets: int, heads: int, farthest: int, both_ways: bool, std: float = 1.0
    ) -> None:
        """Look both ways, as an encoder does, or only back; constant beyond `farthest`."""
        super().__init__()
        self.both_ways, self.farthest = both_ways, farthest
        self.weight = nn.Parameter(torch.empty(buckets, heads))
        nn.init.normal_(self.weight, std=std)

    @classmethod
    def of(cls, config: T5Config, both_ways: bool) -> "RelativeBias":
        """Make the bias of a T5."""
        return cls(
            config.relative_attention_num_buckets,
            config.num_heads,
            config.relative_attention_max_distance,
            both_ways,
            config.d_model**-0.5,
        )

    def forward(self, distance: Tensor) -> Tensor:
        """Map distances (…), negative where the key is before the query, to (…, heads)."""
        return F.embedding(self.buckets(distance), self.weight)

    def square(self, length: int) -> Tensor:
        """Return the bias of each query and key of a sequence (heads, T, T)."""
        reach = torch.arange(1 - length, length, device=self.weight.device)
        # Contiguous by head: attention falls back to slow kernels for any other mask.
        by_distance: Tensor = self(reach).T.contiguous()  # (heads, 2T - 1)
        return by_distance.unfold(1, length, 1).flip(1)

    def tiles(self, size: int, dtype: torch.dtype) -> Tensor:
        """Return the bias of tiles of queries and keys, by the number of tiles between them.

        (heads, 2n + 1, size, size): more than n tiles away the bias no longer changes.
        """
        n = -(-(self.farthest + size - 1) // size)
        token = torch.arange(size, device=self.weight.device)
        between = torch.arange(-n, n + 1, device=self.weight.device)
        distance = between[:, None, None] * size + token[None, None] - token[None, :, None]
        bias: Tensor = self(distance)
        return bias.permute(3, 0, 1, 2).to(dtype).contiguous()

    def buckets(self, distance: Tensor) -> Tensor:
        """Map distances to rows of the weight; far ones share theirs, logarithmically."""
        n = len(self.weight) // 2 if self.both_ways else len(self.weight)
        away = distance.abs() if self.both_ways else (-distance).clamp(min=0)
        exact = n // 2
        ratio = torch.log(away.clamp(min=1).float() / exact) / math.log(self.farthest / exact)
        far = (exact + (ratio * (n - exact)).long()).clamp(max=n - 1)
        bucket = torch.where(away < exact, away, far)
        return bucket + n * (distance > 0) if self.both_ways else bucket


class FeedForward(nn.Module):
    """Two linear layers with a ReLU, or gates by GELU, between them."""

    def __init__(self, config: T5Config, dropout: float) -> None:
        super().__init__()
        self.dropout, self.gated = dropout, config.is_gated
        self.up = _linear(config.d_model, config.d_ff * (2 if self.gated else 1))
        self.down = _linear(config.d_ff, config.d_model)

    def forward(self, x: Tensor) -> Tensor:
        """Map (…, d) to (…, f), the input of `down`, with dropout."""
        if dispatch.uses_inference_kernels(x):
            return self._run_fast(x.view(-1, x.shape[-1])).view(*x.shape[:-1], -1)
        wide, dropout = self.up(x), self.dropout if self.training else 0.0
        if dispatch.uses_training_kernels(x):
            from jpr.models.kernels import training

            return training.activation(wide, self.gated, dropout)
        if self.gated:
            gate, wide = wide.chunk(2, dim=-1)
            wide = F.gelu(gate, approximate="tanh") * wide
        else:
            wide = F.relu(wide, inplace=True)
        return F.dropout(wide, dropout, dropout > 0)

    def _run_fast(self, x: Tensor) -> Tensor:
        """Do the same for rows (N, d) in fewer passes over memory."""
        if self.gated:
            from jpr.models.kernels import inference

            return inference.gated_gelu(self.up(x))
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
        """Map (…, d) to (…, heads · d_kv), the input of `o`."""
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
        """Map (…, d) to (…, heads · d_kv), the input of `o`."""
        q: Tensor = self.q(x).unflatten(-1, (self.heads, -1))
        return attend(q).flatten(-2)


class EncoderBlock(nn.Module):
    """Self-attention and a feed-forward layer, each with a norm before and a residual."""

    def __init__(self, config: T5Config, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.norm1, self.attention = T5Norm(config), SelfAttention(config)
        self.norm2, self.feed = T5Norm(config), FeedForward(config, dropout)

    def forward(self, x: Tensor, attend: Attend) -> Tensor:
        """Map (…, d) to (…, d); without gradients, in place."""
        drop = self.dropout if self.training else 0.0
        attended = self.attention(self.norm1(x), attend)
        x = dispatch.add_linear(x, self.attention.o, attended, drop)
        return dispatch.add_linear(x, self.feed.down, self.feed(self.norm2(x)), drop)


class DecoderBlock(nn.Module):
    """The same with attention to the memory in between."""

    def __init__(self, config: T5Config, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.norm1, self.attention = T5Norm(config), SelfAttention(config)
        self.norm2, self.cross = T5Norm(config), CrossAttention(config)
        self.norm3, self.feed = T5Norm(config), FeedForward(config, dropout)

    def forward(self, x: Tensor, attend_self: Attend, attend_cross: AttendCross) -> Tensor:
        """Map (…, d) to (…, d); without gradients, in place."""
        drop = self.dropout if self.training else 0.0
        attended = self.attention(self.norm1(x), attend_self)
        x = dispatch.add_linear(x, self.attention.o, attended, drop)
        x = dispatch.add_linear(x, self.cross.o, self.cross(self.norm2(x), attend_cross), drop)
        return dispatch.add_linear(x, self.feed.down, self.feed(self.norm3(x)), drop)


class T5Norm(nn.RMSNorm):
    """A norm by the root mean square, without a shift."""

    def __init__(self, config: T5Config) -> None:
        super().__init__(config.d_model, eps=config.layer_norm_epsilon)

    def forward(self, x: Tensor) -> Tensor:
        """Map (…, d) to (…, d)."""
        assert self.eps is not None
        if dispatch.uses_training_kernels(x):
            from jpr.models.kernels import training

            return training.rms_norm(x, self.weight, self.eps, dispatch.working_dtype(x))
        if dispatch.uses_inference_kernels(x):
            from jpr.models.kernels import inference

            rows = x.view(-1, x.shape[-1])
            return inference.rms_norm(rows, self.weight, self.eps).view(x.shape)
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)


def _linear(inputs: int, outputs: int) -> nn.Linear:
    """Return a layer without bias whose outputs start as large as its inputs."""
    layer = nn.Linear(inputs, outputs, bias=False)
    nn.init.normal_(layer.weight, std=inputs**-0.5)
    return layer


def _start_queries(weight: Tensor, config: T5Config) -> None:
    """Start with queries smaller by √d_kv, since scores are not divided by it."""
    nn.init.normal_(weight, std=(config.d_model * config.d_kv) ** -0.5)
