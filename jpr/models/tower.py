"""One vector per text: a BERT, what stands for all its tokens, and what follows."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from jpr.errors import DataError
from jpr.models.bert import Bert, BertConfig, from_hugging_face, pool
from jpr.models.checkpoint import shapes_only

_WORDS = "embeddings.word_embeddings.weight"


@dataclass(frozen=True, slots=True)
class VectorHead:
    """How a vector is made of the tokens' vectors."""

    pooling: str = "mean"
    """`mean` of the tokens, `cls` the first, `pooler` the first through a layer with tanh."""
    projection: str = "none"
    """`none`, or a linear layer alone (`linear`), with `tanh`, or with a layer `norm`."""
    normalise: bool = True


class Tower(nn.Module):
    """Token ids to unit vectors, or to whatever its head makes of them."""

    def __init__(self, bert: Bert, head: VectorHead, dimension: int | None = None) -> None:
        """Add a head; `dimension` is that of the projection, where there is one."""
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
        """Map rows of `lengths` (B,) laid end to end, ids (N,), to vectors (B, dimension)."""
        how = "mean" if self.head.pooling == "mean" else "cls"
        vector = pool(self.bert.forward_packed(ids, lengths), lengths, how)
        if self.head.pooling == "pooler":
            vector = torch.tanh(self.pooler(vector))
        if self.head.projection != "none":
            vector = self.projection(vector)
        if self.head.projection == "tanh":
            vector = torch.tanh(vector)
        elif self.head.projection == "norm":
            vector = self.projection_norm(vector)
        return F.normalize(vector.float(), dim=-1) if self.head.normalise else vector.float()


def tower_from_weights(
    config: Mapping[str, object], weights: Mapping[str, Tensor], head: VectorHead
) -> Tower:
    """Make a tower of a checkpoint's weights under Hugging Face's names, whatever their prefix.

    The pooler is called `pooler.dense` there; of the projection's names, `projection.dense` and
    `projection.LayerNorm`, only we know.
    """
    shape = BertConfig.of(config)
    prefix = next((name.removesuffix(_WORDS) for name in weights if name.endswith(_WORDS)), "")
    plain = {name.removeprefix(prefix): weight for name, weight in weights.items()}
    projection = plain.get("projection.dense.weight")
    size = None if projection is None else len(projection)
    with shapes_only():  # until these are known to be those of the weights
        wanted = Tower(Bert(shape), head, size).state_dict()
    named = {f"bert.{name}": w for name, w in from_hugging_face(plain, shape).items()}
    for ours, theirs in _HEAD_NAMES.items():
        found = (f"{theirs}.{kind}" for kind in ("weight", "bias"))
        named |= {
            f"{ours}.{name.rpartition('.')[2]}": plain[name] for name in found if name in plain
        }
    missing = sorted(wanted.keys() - named.keys())
    if missing:
        raise DataError(f"the checkpoint lacks the weight {missing[0]} that its head needs")
    for name, weight in wanted.items():
        if weight.shape != named[name].shape:
            shapes = f"{tuple(named[name].shape)} instead of {tuple(weight.shape)}"
            raise DataError(f"the weight {name} has the shape {shapes}; does config.json fit?")
    tower = Tower(Bert(shape), head, size)
    tower.load_state_dict({name: named[name] for name in wanted})
    return tower.eval()


_HEAD_NAMES = {
    "pooler": "pooler.dense",
    "projection": "projection.dense",
    "projection_norm": "projection.LayerNorm",
}
