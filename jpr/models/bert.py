"""BERT and MPNet encoders that load Hugging Face weights.

The two differ in positions: BERT adds learned position and segment embeddings; MPNet adds
positions (counted from the padding id) and a relative position bias shared by all layers.

`forward` takes padded rows. `forward_packed` takes concatenated rows: on CUDA in 16 bits without
padding, by variable-length attention; elsewhere it pads, with the same result.
"""

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from jpr.models.checkpoint import stack_weights, unstack_weights
from jpr.models.config import BertConfig
from jpr.models.padding import length_mask, pad_rows, run_blocks
from jpr.models.t5_blocks import Attend, RelativeBias

_MAX_DISTANCE = 128  # MPNet's relative bias is constant from this distance on


class BertBlock(nn.Module):
    """Self-attention and a feed-forward layer, each followed by a norm of the residual sum."""

    def __init__(self, config: BertConfig, dropout: float) -> None:
        super().__init__()
        d = config.hidden_size
        self.heads = config.num_attention_heads
        self.dropout = dropout
        self.qkv = nn.Linear(d, 3 * d)
        self.out = nn.Linear(d, d)
        self.norm1 = nn.LayerNorm(d, eps=config.layer_norm_eps)
        self.up = nn.Linear(d, config.intermediate_size)
        self.down = nn.Linear(config.intermediate_size, d)
        self.norm2 = nn.LayerNorm(d, eps=config.layer_norm_eps)

    def forward(self, x: Tensor, attend: Attend) -> Tensor:
        """Map (…, d) to (…, d)."""
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).unbind(-3)  # (…, heads, d/heads)
        mixed = self.out(attend(q, k, v).flatten(-2))
        x = _layer_norm(self.norm1, x + F.dropout(mixed, self.dropout, self.training))
        fed = self.down(F.gelu(self.up(x)))
        return _layer_norm(self.norm2, x + F.dropout(fed, self.dropout, self.training))


def _layer_norm(norm: nn.LayerNorm, x: Tensor) -> Tensor:
    """Normalize in the precision of x: autocast would use float32, which takes 10 % longer."""
    with torch.autocast(x.device.type, enabled=False):
        weight, bias = norm.weight.to(x.dtype), norm.bias.to(x.dtype)
        return F.layer_norm(x, norm.normalized_shape, weight, bias, norm.eps)


class Bert(nn.Module):
    """Token ids to vectors; stateless, so that threads may share it."""

    def __init__(self, config: BertConfig, dropout: float = 0.0) -> None:
        super().__init__()
        d = config.hidden_size
        self.config = config
        self.dropout = dropout
        self.checkpointing = False  # recompute activations in the backward pass, to save memory
        self.is_mpnet = config.model_type == "mpnet"
        self.first_position = config.pad_token_id + 1 if self.is_mpnet else 0
        self.words = nn.Embedding(config.vocab_size, d)
        self.positions = nn.Embedding(config.max_position_embeddings, d)
        self.norm = nn.LayerNorm(d, eps=config.layer_norm_eps)
        self.blocks = nn.ModuleList(
            BertBlock(config, dropout) for _ in range(config.num_hidden_layers)
        )
        if self.is_mpnet:
            buckets, heads = config.relative_attention_num_buckets, config.num_attention_heads
            self.relative = RelativeBias(buckets, heads, _MAX_DISTANCE, both_ways=True)
        else:
            self.segments = nn.Embedding(config.type_vocab_size, d)

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """Map padded ids (B, T) with `lengths` (B,) to (B, T, d)."""
        t = ids.shape[1]
        x = self._embed(ids, torch.arange(t, device=ids.device))
        outside = ~length_mask(lengths, t)
        mask = torch.zeros(ids.shape, dtype=x.dtype, device=x.device)
        mask = mask.masked_fill(outside, torch.finfo(x.dtype).min)[:, None, None]
        if self.is_mpnet:
            mask = mask + self.relative.square(t)[None].to(x.dtype)
        mask = mask.expand(-1, -1, t, -1)  # (B, 1 or heads, T, T) for all layers: it is large

        def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            q, k, v = (part.transpose(1, 2) for part in (q, k, v))  # (B, heads, T, d/heads)
            return F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2)

        return run_blocks(self.blocks, x, attend, self.checkpointing)

    def forward_packed(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """Map concatenated rows of `lengths` (B,), ids (N,), to (N, d)."""
        weight = self.words.weight
        half = weight.dtype in (torch.bfloat16, torch.float16) or torch.is_autocast_enabled("cuda")
        if not (weight.is_cuda and half):
            mask = length_mask(lengths, int(lengths.max()))
            return self.forward(pad_rows(ids, mask), lengths)[mask]
        ends = F.pad(lengths.cumsum(0), (1, 0)).to(torch.int32)
        return self.forward_varlen(ids, ends, int(lengths.max()))

    def forward_varlen(self, ids: Tensor, ends: Tensor, longest: int) -> Tensor:
        """Map concatenated ids (N,), row boundaries `ends` (B + 1,) from 0 on, to (N, d).

        In 16 bits on a GPU only; tokens after the last boundary belong to no row.
        """
        token = torch.arange(len(ids), device=ids.device, dtype=torch.int32)
        row = torch.searchsorted(ends, token, right=True) - 1
        last = len(self.positions.weight) - 1 - self.first_position
        position = (token - ends[row]).clamp(max=last).long()
        attend = self._attend_packed(ends, longest)
        return run_blocks(self.blocks, self._embed(ids, position), attend, self.checkpointing)

    def _attend_packed(self, ends: Tensor, longest: int) -> Attend:
        """Return attention over concatenated rows, within each row."""
        if self.is_mpnet:  # with a relative bias: T5's, with scaled queries
            from jpr.models.kernels import inference, training

            tiles = self.relative.tiles(inference.TILE, torch.float32)

            def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
                q, k, v = q * q.shape[-1] ** -0.5, k.contiguous(), v.contiguous()  # equal strides
                return training.attend(q, k, v, tiles, ends, longest, 0.0)
        else:
            from torch.nn.attention.varlen import varlen_attn

            def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
                mixed = varlen_attn(q, k, v, ends, ends, longest, longest)
                assert isinstance(mixed, Tensor)  # it returns a tuple only on request
                return mixed

        return attend

    def _embed(self, ids: Tensor, position: Tensor) -> Tensor:
        """Return the input of the blocks, in the precision in which they work."""
        x: Tensor = self.words(ids) + self.positions(position + self.first_position)
        if not self.is_mpnet:
            x = x + self.segments.weight[0]
        x = F.dropout(self.norm(x), self.dropout, self.training)
        kind = x.device.type
        return x.to(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else x


def pool(hidden: Tensor, lengths: Tensor, how: str) -> Tensor:
    """Pool concatenated rows (N, d) to (B, d): their `mean`, or the first token (`cls`)."""
    if how == "cls":
        return hidden[lengths.cumsum(0) - lengths].float()
    row = torch.repeat_interleave(lengths, output_size=len(hidden))  # (N,)
    total = torch.zeros(len(lengths), hidden.shape[1], device=hidden.device)
    return total.index_add(0, row, hidden.float()) / lengths[:, None]


def from_hugging_face(weights: Mapping[str, Tensor], config: BertConfig) -> dict[str, Tensor]:
    """Rename the weights of a Hugging Face BERT or MPNet to those of `Bert`."""
    plain = {name.removeprefix("bert.").removeprefix("mpnet."): w for name, w in weights.items()}
    return stack_weights(plain, _names(config), "BERT")


def to_hugging_face(weights: Mapping[str, Tensor], config: BertConfig) -> dict[str, Tensor]:
    """Rename the weights of a `Bert` to Hugging Face's."""
    return unstack_weights(weights, _names(config))


def _names(config: BertConfig) -> dict[str, tuple[str, ...]]:
    mpnet = config.model_type == "mpnet"
    names: dict[str, tuple[str, ...]] = {
        "words.weight": ("embeddings.word_embeddings.weight",),
        "positions.weight": ("embeddings.position_embeddings.weight",),
        "norm.weight": ("embeddings.LayerNorm.weight",),
        "norm.bias": ("embeddings.LayerNorm.bias",),
    }
    if mpnet:
        names["relative.weight"] = ("encoder.relative_attention_bias.weight",)
    else:
        names["segments.weight"] = ("embeddings.token_type_embeddings.weight",)
    bert_parts = ("self.query", "self.key", "self.value"), "output.dense", "output.LayerNorm"
    mpnet_parts = ("attn.q", "attn.k", "attn.v"), "attn.o", "LayerNorm"
    qkv, out, norm = mpnet_parts if mpnet else bert_parts
    parts = {
        "qkv": tuple(f"attention.{part}" for part in qkv),
        "out": (f"attention.{out}",),
        "norm1": (f"attention.{norm}",),
        "up": ("intermediate.dense",),
        "down": ("output.dense",),
        "norm2": ("output.LayerNorm",),
    }
    for i in range(config.num_hidden_layers):
        for ours, theirs in parts.items():
            for kind in ("weight", "bias"):
                stacked = tuple(f"encoder.layer.{i}.{part}.{kind}" for part in theirs)
                names[f"blocks.{i}.{ours}.{kind}"] = stacked
    return names
