"""One vector per text: a BERT, pooling, and an optional projection."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from jpr.models.bert import Bert, from_hugging_face, pool
from jpr.models.checkpoint import load_weights, shapes_only
from jpr.models.config import BertConfig

_WORDS = "embeddings.word_embeddings.weight"
_HEAD_NAMES = {
    "pooler": "pooler.dense",
    "projection": "projection.dense",
    "projection_norm": "projection.LayerNorm",
}
"""Prefixes of our names and of the checkpoint's; those of projections are our own invention."""


@dataclass(frozen=True, slots=True)
class VectorHead:
    """How one vector is made from those of the tokens."""

    pooling: str = "mean"
    """`mean` of the tokens, `cls` the first, `pooler` the first through a layer with tanh."""
    projection: str = "none"
    """`none`, or a `linear` layer, alone or followed by `tanh` or by a layer `norm`."""
    normalize: bool = True


class Tower(nn.Module):
    """Token ids to one vector per text."""

    def __init__(self, bert: Bert, head: VectorHead, dimension: int | None = None) -> None:
        """Add a head; `dimension` is that of the projection, if any."""
        super().__init__()
        d = bert.config.hidden_size
        self.bert, self.head = bert, head
        self.dimension = d if head.projection == "none" else dimension or d
        if head.pooling == "pooler":
            self.pooler = nn.Linear(d, d)
        if head.projection != "none":
            self.projection = nn.Linear(d, self.dimension)
        if head.projection == "norm":
            self.projection_norm = nn.LayerNorm(self.dimension, eps=bert.config.layer_norm_eps)

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """Map concatenated rows of `lengths` (B,), ids (N,), to vectors (B, dimension)."""
        how = "mean" if self.head.pooling == "mean" else "cls"
        vector = pool(self.bert.forward_packed(ids, lengths), lengths, how)  # (B, d)
        if self.head.pooling == "pooler":
            vector = torch.tanh(self.pooler(vector))
        if self.head.projection != "none":
            vector = self.projection(vector)
        if self.head.projection == "tanh":
            vector = torch.tanh(vector)
        elif self.head.projection == "norm":
            vector = self.projection_norm(vector)
        return F.normalize(vector.float(), dim=-1) if self.head.normalize else vector.float()


def tower_from_weights(
    config: Mapping[str, object], weights: Mapping[str, Tensor], head: VectorHead
) -> Tower:
    """Make a tower of a checkpoint's weights under Hugging Face's names, with any prefix."""
    shape = BertConfig.from_dict(config)
    prefix = next((name.removesuffix(_WORDS) for name in weights if name.endswith(_WORDS)), "")
    plain = {name.removeprefix(prefix): weight for name, weight in weights.items()}
    named = {f"bert.{name}": w.float() for name, w in from_hugging_face(plain, shape).items()}
    projection = plain.get("projection.dense.weight")
    with shapes_only():  # nothing is allocated until the shapes are checked
        tower = Tower(Bert(shape), head, None if projection is None else len(projection))
    for name in tower.state_dict():
        part, _, kind = name.rpartition(".")
        if (theirs := f"{_HEAD_NAMES.get(part)}.{kind}") in plain:
            named[name] = plain[theirs].float()
    load_weights(tower, named)
    return tower
