"""The weights of models that were exported to ONNX, back as models for torch.

So the encoder and the joint model that come with the package, whose only weights are in 8 bits, run
on a GPU too. Only plain BERT towers are read (mean or first token, no projection), and joint models
of a BERT with a pointer head.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from jpr.errors import ConfigError, DataError, FormatError, MissingExtraError
from jpr.io.atomic import copy_file
from jpr.io.checksums import checked_sums

try:
    import onnx
    import torch
    from google.protobuf.message import DecodeError
    from onnx import ModelProto, numpy_helper
    from torch import Tensor
except ImportError as error:
    raise MissingExtraError("weights for torch", "train") from error

from jpr.models.bert import Bert, BertConfig
from jpr.models.joint import JointModel, PointerHead
from jpr.models.joint_checkpoint import joint_of, load_weights, write_joint
from jpr.models.joint_config import (
    ENCODER_FILE,
    JOINT_JSON,
    STEP_FILE,
    is_bert_pointer,
    read_joint_json,
)
from jpr.models.t5 import T5Decoder
from jpr.models.t5_blocks import RelativeBias
from jpr.models.tower import Tower, VectorHead

Kept = Mapping[str, Tensor]
"""What a file keeps, under the names that `jpr.models.onnx_export` and its neighbours give."""


def tower_from_onnx(file: Path, head: VectorHead) -> Tower:
    """Read a tower's weights, whole numbers multiplied by their steps."""
    try:
        model = onnx.load(file)
        kept = _kept(model)
        if "relative" in kept:
            raise KeyError("an MPNet's bias")
        tower = Tower(Bert(_shape(model, kept)), head)
        weights = {f"bert.{name}": w for name, w in _of_bert(kept, tower.bert).items()}
        tower.load_state_dict(weights)
    except (OSError, DecodeError, KeyError, RuntimeError, StopIteration) as error:
        raise FormatError(file, 0, f"is no plain encoder of ours ({error})") from error
    return tower.eval()


def joint_from_onnx(folder: Path) -> JointModel:
    """Read a joint model's weights from its two files, whole numbers multiplied by their steps."""
    about = read_joint_json(folder)
    if not is_bert_pointer(about):
        told = "is no BERT with a pointer head; ONNX files of other models only run on the CPU"
        raise FormatError(folder, 0, f"{told}: use cpu, or the folder that was exported")
    checked_sums(folder / JOINT_JSON)
    encoder, step = (_opened(folder / name) for name in (ENCODER_FILE, STEP_FILE))
    if _told(encoder) != _told(step):
        told = f"{ENCODER_FILE} and {STEP_FILE} are of different models"
        raise FormatError(folder, 0, f"{told}; export both again")
    try:
        model = joint_of(about)
        load_weights(model, _of_joint(_kept(encoder), _kept(step), model))
    except (KeyError, TypeError, ValueError, RuntimeError, DataError, ConfigError) as error:
        raise FormatError(folder, 0, f"is damaged ({error}); export it again") from error
    return model.eval()


def write_for_torch(exported: Path, folder: Path) -> None:
    """Write a joint model that was exported as a folder that can be trained further."""
    prompt = read_joint_json(exported).get("prompt")
    if not isinstance(prompt, dict):
        raise FormatError(exported, 0, "says nothing of its prompt; export it again")
    copy_file(exported / "tokenizer.json", folder / "tokenizer.json")
    write_joint(folder, joint_from_onnx(exported), prompt)


def _opened(file: Path) -> ModelProto:
    if not file.exists():
        raise FormatError(file, 0, "is missing; export the model again")
    try:
        return onnx.load(file)
    except (OSError, DecodeError) as error:
        raise FormatError(file, 0, f"is no model ({error}); export it again") from error


def _told(model: ModelProto) -> dict[str, str]:
    """Return what a file says of the model that it is part of."""
    return {entry.key: entry.value for entry in model.metadata_props}


def _kept(model: ModelProto) -> Kept:
    return {w.name: _tensor(numpy_helper.to_array(w)) for w in model.graph.initializer}


def _tensor(array: "np.ndarray[tuple[int, ...], np.dtype[np.generic]]") -> Tensor:
    return torch.from_numpy(np.array(array))


def _shape(model: ModelProto, kept: Kept) -> BertConfig:
    heads = next(node for node in model.graph.node if node.op_type == "MultiHeadAttention")
    norm = next(node for node in model.graph.node if node.op_type == "LayerNormalization")
    eps = next(a.f for a in norm.attribute if a.name == "epsilon")
    n_heads = next(a.i for a in heads.attribute if a.name == "num_heads")
    words, positions = kept["words"], kept["positions"]
    layers = sum(name.endswith(".qkv.bias") for name in kept)
    wide = kept["blocks.0.up.bias"].shape[0]
    return BertConfig(len(words), words.shape[1], layers, n_heads, wide, len(positions), eps)


def _of_bert(kept: Kept, bert: Bert) -> dict[str, Tensor]:
    """Return what the encoder's own names stand for; the segment is in the positions already."""
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


def _of_joint(encoder: Kept, step: Kept, model: JointModel) -> dict[str, Tensor]:
    """Return what the joint model's own names stand for."""
    assert isinstance(model.encoder, Bert)
    assert isinstance(model.head, PointerHead)
    parts = {
        "encoder": _of_bert(encoder, model.encoder),
        "decoder": _of_decoder(step, model.decoder),
        "head": _of_head(step, model.head),
    }
    if model.answers is not None:
        parts["answers"] = {"ends.weight": encoder["answers.weight"].T}
    return {f"{part}.{name}": w for part, own in parts.items() for name, w in own.items()}


def _of_head(step: Kept, head: PointerHead) -> dict[str, Tensor]:
    names = head.state_dict()
    return {name: _by_rows(step, f"head.{name.removesuffix('.weight')}") for name in names}


def _of_decoder(step: Kept, decoder: T5Decoder) -> dict[str, Tensor]:
    bias = _by_bucket(step["relative"], decoder.relative)
    names = decoder.state_dict().keys() - {"relative.weight"}
    return {name: _by_rows(step, name) for name in names} | {"relative.weight": bias}


def _by_rows(step: Kept, name: str) -> Tensor:
    """Return a weight of the decoder or the head, in which each row has its step, if any."""
    steps = step.get(f"{name}.step")
    return step[name] if steps is None else step[name].float() * steps[:, None]


def _by_bucket(by_distance: Tensor, relative: RelativeBias) -> Tensor:
    """Return the bias of each bucket; it is zero for those that no distance falls in."""
    found = torch.zeros_like(relative.weight)
    found[relative.buckets(-torch.arange(len(by_distance)))] = by_distance
    return found
