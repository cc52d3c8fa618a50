"""The weights of an encoder that `jpr.models.export` made, back as a tower for torch.

So the encoder that comes with the package, whose only weights are in 8 bits, runs on a GPU too.
Only plain BERT towers are read: mean or first token, no projection.
"""

from pathlib import Path

import numpy as np
import onnx
import torch
from google.protobuf.message import DecodeError
from onnx import ModelProto, numpy_helper
from torch import Tensor

from jpr.errors import FormatError
from jpr.models.bert import Bert, BertConfig
from jpr.models.tower import Head, Tower


def tower_from_onnx(file: Path, head: Head) -> Tower:
    """Read a tower's weights, whole numbers multiplied by their steps."""
    try:
        model = onnx.load(file)
        kept = {w.name: _tensor(numpy_helper.to_array(w)) for w in model.graph.initializer}
        tower = Tower(Bert(_shape(model, kept)), head)
        weights = {f"bert.{name}": w for name, w in _weights(kept, tower.bert).items()}
        tower.load_state_dict(weights)
    except (OSError, DecodeError, KeyError, RuntimeError, StopIteration) as error:
        raise FormatError(file, 0, f"is no plain encoder of ours ({error})") from error
    return tower.eval()


def _tensor(array: "np.ndarray[tuple[int, ...], np.dtype[np.generic]]") -> Tensor:
    return torch.from_numpy(np.array(array))


def _shape(model: ModelProto, kept: dict[str, Tensor]) -> BertConfig:
    heads = next(node for node in model.graph.node if node.op_type == "MultiHeadAttention")
    norm = next(node for node in model.graph.node if node.op_type == "LayerNormalization")
    eps = next(a.f for a in norm.attribute if a.name == "epsilon")
    n_heads = next(a.i for a in heads.attribute if a.name == "num_heads")
    words, positions = kept["words"], kept["positions"]
    layers = sum(name.endswith(".qkv.bias") for name in kept)
    wide = kept["blocks.0.up.bias"].shape[0]
    return BertConfig(len(words), words.shape[1], layers, n_heads, wide, len(positions), eps)


def _weights(kept: dict[str, Tensor], bert: Bert) -> dict[str, Tensor]:
    """Return what the tower's own names stand for; the segment is in the positions already."""
    found = {}
    for name, wanted in bert.state_dict().items():
        part = name.removesuffix(".weight")
        if name == "words.weight":
            found[name] = kept["words"].float() * kept.get("words.step", torch.ones(1))
        elif name == "positions.weight":
            found[name] = kept["positions"]
        elif name == "segments.weight":
            found[name] = torch.zeros_like(wanted)
        elif f"{part}.step" in kept:
            whole = kept[name].float().T * kept[f"{part}.step"][:, None]
            found[name] = whole * kept.get(f"{part}.smoothing", torch.ones(1))
        else:
            found[name] = kept[name].T if wanted.dim() == 2 else kept[name]
    return found
