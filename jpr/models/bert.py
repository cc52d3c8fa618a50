"""BERT- and MPNet-style encoders: our own few lines, which load Hugging Face weights.

Two families share the block and differ in how positions enter: BERT adds learned position and
segment embeddings; MPNet adds positions (counted from the padding id) and a bias by relative
position, shared by all layers.

`forward` takes padded rows. `packed` takes rows laid end to end and spends nothing on padding where
the device has an attention kernel for that (CUDA, 16 bits); elsewhere it pads and gives the same.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from jpr.errors import DataError
from jpr.models.checkpoint import stack_weights, unstack_weights
from jpr.models.config import check_shape
from jpr.models.padding import length_mask, pad_rows, run_block
from jpr.models.t5_blocks import RelativeBias

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Mixes values (…, heads, d/heads) by the agreement of queries with keys, all of the same shape."""
_FARTHEST = 128
"""MPNet: from which distance on tokens are equally far."""


@dataclass(frozen=True, slots=True)
class BertConfig:
    """The shape of an encoder, as in Hugging Face's config.json."""

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    max_position_embeddings: int
    layer_norm_eps: float = 1e-12
    type_vocab_size: int = 2
    model_type: str = "bert"
    pad_token_id: int = 0
    relative_attention_num_buckets: int = 32

    def __post_init__(self) -> None:
        check_shape(self)

    @classmethod
    def of(cls, config: Mapping[str, object]) -> "BertConfig":
        """Take what is needed of a config.json."""
        known = {name: config[name] for name in cls.__dataclass_fields__ if name in config}
        try:
            return cls(**known)  # type: ignore[arg-type]  # checked by use
        except TypeError as error:
            raise DataError(f"config.json is not that of a BERT or MPNet: {error}") from error


class BertBlock(nn.Module):
    """Self-attention and a feed-forward layer, each followed by a norm over the residual sum."""

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
        """Map (…, d) to the same."""
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).unbind(-3)
        mixed = self.out(attend(q, k, v).flatten(-2))
        x = _normed(self.norm1, x + F.dropout(mixed, self.dropout, self.training))
        widened = self.down(F.gelu(self.up(x)))
        return _normed(self.norm2, x + F.dropout(widened, self.dropout, self.training))


def _normed(norm: nn.LayerNorm, x: Tensor) -> Tensor:
    """Return the same as the norm does, in the precision of what is given.

    Autocast would go on in 32 bits, which takes a tenth more time.
    """
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
        self.checkpointing = False
        """Whether to compute blocks twice in training instead of keeping what is in them."""
        self.is_mpnet = config.model_type == "mpnet"
        self.words = nn.Embedding(config.vocab_size, d)
        self.positions = nn.Embedding(config.max_position_embeddings, d)
        self.norm = nn.LayerNorm(d, eps=config.layer_norm_eps)
        self.blocks = nn.ModuleList(
            BertBlock(config, dropout) for _ in range(config.num_hidden_layers)
        )
        if self.is_mpnet:
            buckets, heads = config.relative_attention_num_buckets, config.num_attention_heads
            self.relative = RelativeBias(buckets, heads, _FARTHEST, both_ways=True)
        else:
            self.segments = nn.Embedding(config.type_vocab_size, d)

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """Map ids (B, T), of which the first `lengths` (B,) of each row count, to (B, T, d)."""
        place = torch.arange(ids.shape[1], device=ids.device)
        x = self._embed(ids, place)
        kind = ids.device.type  # the mask is large: it is made once, as attention takes it
        half = torch.is_autocast_enabled(kind)
        dtype = torch.get_autocast_dtype(kind) if half else x.dtype
        mask = self._mask(length_mask(lengths, ids.shape[1]), dtype)  # (B, 1 or heads, T, T)

        def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            q, k, v = (part.transpose(1, 2) for part in (q, k, v))  # (B, heads, T, d/heads)
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            return mixed.transpose(1, 2)

        return self._blocks(x, attend)

    def forward_packed(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """Map rows of `lengths` (B,) laid end to end, ids (N,), to (N, d)."""
        if not _has_packed_attention(self.words.weight):
            places = length_mask(lengths, int(lengths.max()))
            return self.forward(pad_rows(ids, places), lengths)[places]
        ends = F.pad(lengths.cumsum(0), (1, 0)).to(torch.int32)
        return self.forward_varlen(ids, ends, int(lengths.max()))

    def forward_varlen(self, ids: Tensor, ends: Tensor, longest: int) -> Tensor:
        """Map rows end to end, ids (N,), which end at `ends` (B + 1,) from 0 on, to (N, d).

        In 16 bits on a GPU only; tokens after the last end belong to no row.
        """
        token = torch.arange(len(ids), device=ids.device, dtype=torch.int32)
        row = torch.searchsorted(ends, token, right=True) - 1
        last = len(self.positions.weight) - 1 - self._first_place
        place = (token - ends[row]).clamp(max=last).long()
        attend = self._by_distance(ends, longest) if self.is_mpnet else _by_row(ends, longest)
        return self._blocks(self._embed(ids, place), attend)

    def _by_distance(self, ends: Tensor, longest: int) -> Attend:
        """Return MPNet's attention over rows end to end: T5's, but for the size of scores."""
        from jpr.models.kernels import inference, training

        tiles = inference.bias_tiles(self.relative, torch.float32)

        def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            q, k, v = q * q.shape[-1] ** -0.5, k.contiguous(), v.contiguous()  # of one stride
            return training.attend(q, k, v, tiles, ends, longest, 0.0)

        return attend

    @property
    def _first_place(self) -> int:
        return self.config.pad_token_id + 1 if self.is_mpnet else 0

    def _embed(self, ids: Tensor, place: Tensor) -> Tensor:
        x: Tensor = self.words(ids) + self.positions(place + self._first_place)
        if not self.is_mpnet:
            x = x + self.segments.weight[0]
        return F.dropout(self.norm(x), self.dropout, self.training)

    def _mask(self, places: Tensor, dtype: torch.dtype) -> Tensor:
        """Return what is added to the attention scores, given which tokens count (B, T)."""
        t = places.shape[1]
        mask = torch.zeros(places.shape, dtype=dtype, device=places.device)
        mask = mask.masked_fill(~places, torch.finfo(dtype).min)[:, None, None]
        if self.is_mpnet:
            mask = mask + self.relative.square(t)[None].to(dtype)
        return mask.expand(-1, -1, t, -1)

    def _blocks(self, x: Tensor, attend: Attend) -> Tensor:
        if torch.is_autocast_enabled(x.device.type):
            x = x.to(torch.get_autocast_dtype(x.device.type))
        for block in self.blocks:
            x = run_block(block, x, attend, self.checkpointing)
        return x


def _by_row(ends: Tensor, longest: int) -> Attend:
    """Return attention over rows end to end, each token's to those of its row."""
    from torch.nn.attention.varlen import varlen_attn

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        mixed = varlen_attn(q, k, v, ends, ends, longest, longest)
        assert isinstance(mixed, Tensor)  # nothing else was asked for
        return mixed

    return attend


def _has_packed_attention(weight: Tensor) -> bool:
    half = weight.dtype in (torch.bfloat16, torch.float16) or torch.is_autocast_enabled("cuda")
    return weight.is_cuda and half


def pool(hidden: Tensor, lengths: Tensor, how: str) -> Tensor:
    """Return one vector per row of rows laid end to end, (N, d) to (B, d): `mean`, or `cls`."""
    if how == "cls":
        return hidden[lengths.cumsum(0) - lengths].float()
    row = torch.repeat_interleave(lengths, output_size=len(hidden))  # (N,) whose token it is
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
    """Return, for each weight of `Bert`, the Hugging Face weights that are stacked in it."""
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
    for i in range(config.num_hidden_layers):
        layer = f"encoder.layer.{i}"
        parts = {
            "qkv": tuple(f"attention.{part}" for part in qkv),
            "out": (f"attention.{out}",),
            "norm1": (f"attention.{norm}",),
            "up": ("intermediate.dense",),
            "down": ("output.dense",),
            "norm2": ("output.LayerNorm",),
        }
        for ours, theirs in parts.items():
            for kind in ("weight", "bias"):
                names[f"blocks.{i}.{ours}.{kind}"] = tuple(f"{layer}.{t}.{kind}" for t in theirs)
    return names
