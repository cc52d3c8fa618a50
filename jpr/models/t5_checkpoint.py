"""T5 checkpoints under Hugging Face's names, read and written.

Newer releases of transformers write `tie_word_embeddings: true` for every T5. So the weights
decide: an output layer that differs from the embeddings is a layer of its own.
"""

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

import torch
from torch import Tensor

from jpr.errors import DataError, FormatError
from jpr.models import checkpoint
from jpr.models.config import T5Config
from jpr.models.kernels.dispatch import check_dtype
from jpr.models.t5 import T5

_WORDS = "shared.weight"
_COPIES = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
_HEAD = "lm_head.weight"


def read_t5(folder: Path, dtype: torch.dtype = torch.float32, dropout: float = 0.0) -> T5:
    """Read a Hugging Face folder, to run in `dtype` whatever it was stored in."""
    check_dtype(dtype)
    config, weights = checkpoint.read_checkpoint(folder)
    try:
        return t5_from_weights(config, weights, dropout).to(dtype)
    except DataError as error:
        raise FormatError(folder, 0, str(error)) from error


def write_t5(folder: Path, model: T5, shard_bytes: int = checkpoint.SHARD_BYTES) -> list[str]:
    """Write a folder that `read_t5` and Hugging Face read, in the model's own precision."""
    weights = to_hugging_face(model.state_dict(), model.config)
    config: dict[str, object] = {
        "architectures": ["T5ForConditionalGeneration"],
        "model_type": "t5",
        "is_encoder_decoder": True,
        "torch_dtype": str(weights[_WORDS].dtype).removeprefix("torch."),
        **asdict(model.config),
    }
    return checkpoint.write_checkpoint(folder, config, weights, shard_bytes)


def t5_from_weights(
    config: Mapping[str, object], weights: Mapping[str, Tensor], dropout: float = 0.0
) -> T5:
    """Make a T5 of a checkpoint's weights under Hugging Face's names, without copying them."""
    shape, words = T5Config.from_dict(config), _words(weights)
    for copy in _COPIES:
        if copy in weights and not torch.equal(weights[copy], words):
            raise DataError(f"{copy} differs from {_WORDS}; a T5 has one matrix for both")
    tied = shape.tie_word_embeddings and _HEAD in weights
    if tied and not torch.equal(weights[_HEAD], words):
        scaled = bool(config.get("scale_decoder_outputs", not shape.is_gated))
        shape = replace(shape, tie_word_embeddings=False, scale_decoder_outputs=scaled)
    names = _names(shape)
    stacked = checkpoint.stack_weights({**weights, _WORDS: words}, names, "T5")
    with checkpoint.shapes_only():  # the largest have tens of gigabytes: nothing is allocated twice
        model = T5(shape, dropout)
    checkpoint.load_weights(model, stacked, names)
    return model


def to_hugging_face(weights: Mapping[str, Tensor], config: T5Config) -> dict[str, Tensor]:
    """Rename the weights of a `T5` to Hugging Face's."""
    return checkpoint.unstack_weights(weights, _names(config))


def _words(weights: Mapping[str, Tensor]) -> Tensor:
    """Return the embeddings, of whose copies some writers keep only one."""
    for name in (_WORDS, *_COPIES, _HEAD):
        if name in weights:
            return weights[name]
    raise DataError(f"the checkpoint lacks the weight {_WORDS!r}; is it a T5?")


def _names(config: T5Config) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {"encoder.words.weight": (_WORDS,)}
    if not config.tie_word_embeddings:
        found["head.weight"] = (_HEAD,)
    for side, layers in (("encoder", config.num_layers), ("decoder", config.num_decoder_layers)):
        bias = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        found[f"{side}.relative.weight"] = (bias,)
        found[f"{side}.norm.weight"] = (f"{side}.final_layer_norm.weight",)
        for i in range(layers):
            for ours, theirs in _block_names(side, config.is_gated).items():
                stacked = tuple(f"{side}.block.{i}.layer.{part}.weight" for part in theirs)
                found[f"{side}.blocks.{i}.{ours}.weight"] = stacked
    return found


def _block_names(side: str, gated: bool) -> dict[str, tuple[str, ...]]:
    """Return the same for one block, whose layers Hugging Face numbers."""
    parts: dict[str, tuple[str, ...]] = {
        "norm1": ("0.layer_norm",),
        "attention.qkv": tuple(f"0.SelfAttention.{part}" for part in "qkv"),
        "attention.o": ("0.SelfAttention.o",),
    }
    last = 1
    if side == "decoder":
        parts["norm2"] = ("1.layer_norm",)
        parts |= {f"cross.{part}": (f"1.EncDecAttention.{part}",) for part in "qkvo"}
        last = 2
    ups = ("wi_0", "wi_1") if gated else ("wi",)
    parts[f"norm{last + 1}"] = (f"{last}.layer_norm",)
    parts["feed.up"] = tuple(f"{last}.DenseReluDense.{up}" for up in ups)
    parts["feed.down"] = (f"{last}.DenseReluDense.wo",)
    return parts
