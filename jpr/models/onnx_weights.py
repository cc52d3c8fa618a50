"""Weights of models that were exported to ONNX, as models for torch.

So the bundled encoder and joint model, whose only weights are in int8, run on a GPU too. Only plain
BERT towers (mean or first token, no projection) and joint models of a BERT with a pointer head.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from jpr.errors import ConfigError, DataError, FormatError, needs_extra
from jpr.io.atomic import copy_file
from jpr.io.checksums import check_sums

with needs_extra("weights for torch", "train"):
    import onnx
    import torch
    from google.protobuf.message import DecodeError
    from onnx import ModelProto, helper, numpy_helper
    from torch import Tensor

from jpr.models import joint_config
from jpr.models.bert import Bert
from jpr.models.checkpoint import load_weights
from jpr.models.config import BertConfig
from jpr.models.joint import JointModel
from jpr.models.joint_checkpoint import joint_shape, write_joint
from jpr.models.onnx_file import read_onnx
from jpr.models.span_weights import SpanWeights
from jpr.models.t5 import T5Decoder
from jpr.models.tower import Tower, VectorHead

Stored = Mapping[str, Tensor]
"""Constants of a file, under the names that `jpr.models.onnx_export` gives."""


def tower_from_onnx(file: Path, head: VectorHead) -> Tower:
    """Read a tower's weights, dequantized."""
    try:
        model = onnx.load_model_from_string(read_onnx(file))
        stored = _stored(model)
        if "relative" in stored:
            raise KeyError("it has an MPNet's relative bias")
        tower = Tower(Bert(_bert_config(model, stored)), head)
        weights = {f"bert.{name}": w for name, w in _bert_weights(stored, tower.bert).items()}
        tower.load_state_dict(weights)
    except (OSError, DecodeError, KeyError, RuntimeError, ValueError) as error:
        problem = f"is not a plain encoder exported by jpr ({error})"
        raise FormatError(file, 0, problem) from error
    return tower.eval()


def joint_from_onnx(folder: Path) -> JointModel:
    """Read a joint model's weights from its files, dequantized."""
    about, sums = joint_config.read_joint_json(folder)
    if not joint_config.is_bert_pointer(about):
        problem = "is not a BERT with a pointer head; other exported models run only on the CPU"
        raise FormatError(folder, 0, f"{problem}: use device cpu, or the folder before the export")
    check_sums(sums)
    names = joint_config.ENCODER_FILE, joint_config.STEP_FILE
    encoder, step = (_open(folder / name) for name in names)
    if _metadata(encoder) != _metadata(step):
        problem = f"{' and '.join(names)} are of different models; export both again"
        raise FormatError(folder, 0, problem)
    try:
        model = joint_shape(about)
        weights = _joint_weights(_stored(encoder), _stored(step), model)
        if model.answers is not None:
            weights |= _span_weights(folder / joint_config.SPANS_FILE, model.decoder.config.d_model)
        load_weights(model, weights)
    except (KeyError, TypeError, ValueError, RuntimeError, DataError, ConfigError) as error:
        raise FormatError(folder, 0, f"is damaged ({error}); export it again") from error
    return model


def write_for_torch(exported: Path, folder: Path) -> None:
    """Write an exported joint model as a folder that can be trained further."""
    prompt = joint_config.read_joint_json(exported)[0].get("prompt")
    if not isinstance(prompt, dict):
        raise FormatError(exported, 0, "has no prompt; export it again")
    copy_file(exported / "tokenizer.json", folder / "tokenizer.json")
    write_joint(folder, joint_from_onnx(exported), prompt)


def _open(file: Path) -> ModelProto:
    if not file.exists():
        raise FormatError(file, 0, "is missing; export the model again")
    try:
        return onnx.load_model_from_string(read_onnx(file))
    except (OSError, DecodeError) as error:
        raise FormatError(file, 0, f"is not an ONNX model ({error}); export it again") from error


def _metadata(model: ModelProto) -> dict[str, str]:
    return {entry.key: entry.value for entry in model.metadata_props}


def _stored(model: ModelProto) -> Stored:
    constants = model.graph.initializer
    return {w.name: torch.from_numpy(np.array(numpy_helper.to_array(w))) for w in constants}


def _bert_config(model: ModelProto, stored: Stored) -> BertConfig:
    nodes = {node.op_type: node for node in model.graph.node}
    n_heads = helper.get_node_attr_value(nodes["MultiHeadAttention"], "num_heads")
    eps = helper.get_node_attr_value(nodes["LayerNormalization"], "epsilon")
    words, positions = stored["words"], stored["positions"]
    layers = sum(name.endswith(".qkv.bias") for name in stored)
    wide = stored["blocks.0.up.bias"].shape[0]
    return BertConfig(len(words), words.shape[1], layers, n_heads, wide, len(positions), eps)


def _bert_weights(stored: Stored, bert: Bert) -> dict[str, Tensor]:
    """Return the weights of an encoder; the segment embedding is part of the positions."""
    found = {
        "words.weight": stored["words"].float() * stored.get("words.step", torch.ones(1)),
        "positions.weight": stored["positions"],
        "segments.weight": torch.zeros(bert.segments.weight.shape),
    }
    for name in [name for name in bert.state_dict() if name not in found]:
        part = name.removesuffix(".weight")
        if f"{part}.step" in stored:
            product = stored[name].float().T * stored[f"{part}.step"][:, None]
            found[name] = product * stored.get(f"{part}.smoothing", torch.ones(1))
        else:
            found[name] = stored[name].T if stored[name].ndim == 2 else stored[name]
    return found


def _joint_weights(encoder: Stored, step: Stored, model: JointModel) -> dict[str, Tensor]:
    assert isinstance(model.encoder, Bert)
    head = model.head.state_dict()
    parts = {
        "encoder": _bert_weights(encoder, model.encoder),
        "decoder": _decoder_weights(step, model.decoder),
        "head": {name: _rows(step, f"head.{name.removesuffix('.weight')}") for name in head},
    }
    return {f"{part}.{name}": w for part, own in parts.items() for name, w in own.items()}


def _span_weights(file: Path, d: int) -> dict[str, Tensor]:
    found = SpanWeights.read(file, d)
    rows = torch.from_numpy(found.project.T.copy())
    first, last = rows[2:].chunk(2)
    parts = {
        "ends.weight": rows[:2],
        "ends.bias": torch.from_numpy(found.bias),
        "first.weight": first * len(first) ** 0.5,
        "last.weight": last,
        "lengths": torch.from_numpy(found.lengths),
    }
    return {f"answers.{name}": w for name, w in parts.items()}


def _decoder_weights(step: Stored, decoder: T5Decoder) -> dict[str, Tensor]:
    """Return the decoder's weights; buckets of the bias that no distance has are zero."""
    by_distance, relative = step["relative"], decoder.relative
    bias = torch.zeros(relative.weight.shape)
    bias[relative.buckets(-torch.arange(len(by_distance)))] = by_distance
    names = decoder.state_dict().keys() - {"relative.weight"}
    return {name: _rows(step, name) for name in names} | {"relative.weight": bias}


def _rows(step: Stored, name: str) -> Tensor:
    """Return a weight of the decoder or the head, in which each row may have a step."""
    steps = step.get(f"{name}.step")
    return step[name] if steps is None else step[name].float() * steps[:, None]
