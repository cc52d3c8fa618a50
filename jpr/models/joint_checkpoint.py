"""Joint models in folders.

    FOLDER/joint.json          what kind of model it is, the shapes of its parts, how texts are
                               read, the hashes of the other files
    FOLDER/model.safetensors   the weights, in 16 or 32 bits, under our own names
    FOLDER/tokenizer.json

`joint_over_t5` and `joint_over_bert` begin one from a Hugging Face checkpoint.
"""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import torch

from jpr.errors import ConfigError, DataError, FormatError
from jpr.io.checksums import checked_sums, write_folder
from jpr.models.bert import Bert, BertConfig, from_hugging_face
from jpr.models.checkpoint import read_checkpoint, shapes_only, write_checkpoint
from jpr.models.heads import SpanHead
from jpr.models.joint import IndexHead, JointModel, PointerHead
from jpr.models.joint_config import FORMAT, JOINT_JSON, KIND, read_joint_json
from jpr.models.t5 import T5, T5Config, T5Decoder, T5Encoder
from jpr.models.t5_checkpoint import read_t5

HEADS = ("pointer", "index")


def joint_over_bert(
    folder: Path,
    layers: int = 2,
    dropout: float = 0.0,
    memory: str = "passages",
    answers: bool = False,
) -> JointModel:
    """Put a fresh pointer decoder over the encoder of a Hugging Face BERT."""
    described, weights = read_checkpoint(folder)
    shape = BertConfig.of(described)
    bert = Bert(shape, dropout)
    named = {name: w.float() for name, w in from_hugging_face(weights, shape).items()}
    bert.load_state_dict(named)
    head = PointerHead(shape.hidden_size)
    decoder = _decoder_for(shape, layers, dropout)
    return JointModel(bert, decoder, head, memory, SpanHead(shape.hidden_size) if answers else None)


def _decoder_for(shape: BertConfig, layers: int, dropout: float) -> T5Decoder:
    d, heads = shape.hidden_size, shape.num_attention_heads
    config = T5Config(1, d, d // heads, shape.intermediate_size, 1, heads, layers)
    return T5Decoder(config, dropout)


def joint_over_t5(
    folder: Path,
    head: str,
    number_tokens: tuple[int, ...],
    dropout: float = 0.0,
    memory: str = "tokens",
    answers: bool = False,
) -> JointModel:
    """Make a joint model of a Hugging Face T5, all of whose weights it keeps."""
    return _over(read_t5(folder, dropout=dropout), head, number_tokens, memory, answers)


def _over(
    t5: T5, head: str, number_tokens: tuple[int, ...], memory: str, answers: bool
) -> JointModel:
    if head == "pointer":
        made: PointerHead | IndexHead = PointerHead(t5.config.d_model)
    elif head == "index":
        words = t5.encoder.words
        out = words.weight if t5.config.tie_word_embeddings else t5.head.weight
        made = IndexHead(words, out, t5.config.decoder_start_token_id, number_tokens)
    else:
        raise ConfigError(f"head {head!r}; choose of {', '.join(HEADS)}")
    reads = SpanHead(t5.config.d_model) if answers else None
    return JointModel(t5.encoder, t5.decoder, made, memory, reads)


def write_joint(
    folder: Path,
    model: JointModel,
    prompt: Mapping[str, object],
    decoding: Mapping[str, object] | None = None,
) -> None:
    """Write a model's folder, but for the tokenizer, which models do not see and is there already.

    It tells how texts are put together for it, and how it was judged to choose best.
    """
    encoder = "bert" if isinstance(model.encoder, Bert) else "t5"
    index = isinstance(model.head, IndexHead)
    about = {
        "format": FORMAT,
        "kind": KIND,
        "encoder": encoder,
        "encoder_config": asdict(model.encoder.config),
        "decoder_config": asdict(model.decoder.config),
        "head": "index" if index else "pointer",
        "memory": model.memory,
        "answers": model.answers is not None,
        "number_tokens": model.head.tokens.tolist() if isinstance(model.head, IndexHead) else [],
        "prompt": dict(prompt),
        **({"decoding": dict(decoding)} if decoding else {}),
    }
    weights = {name: w for name, w in model.state_dict().items() if name != "head.words.weight"}
    config: dict[str, object] = {"model_type": "jpr-joint"}
    write_folder(folder / JOINT_JSON, about, lambda: write_checkpoint(folder, config, weights))


def read_joint(folder: Path) -> tuple[JointModel, dict[str, object]]:
    """Read a model and how its texts are to be read."""
    about = read_joint_json(folder)
    checked_sums(folder / JOINT_JSON)
    _, weights = read_checkpoint(folder)
    try:
        with shapes_only():  # until these are known to be those of the weights
            described = joint_of(about)
        if isinstance(described.head, IndexHead):
            weights["head.words.weight"] = weights["encoder.words.weight"]
        check_weights(described, weights)
        model = joint_of(about)
        load_weights(model, weights)
        prompt = about["prompt"]
    except (LookupError, TypeError, ValueError, RuntimeError, DataError, ConfigError) as error:
        raise FormatError(folder, 0, f"is damaged ({error}); copy it again") from error
    if not isinstance(prompt, dict):
        raise FormatError(folder / "joint.json", 0, "says nothing of its prompt; copy it again")
    return model.eval(), prompt


def joint_of(about: Mapping[str, object]) -> JointModel:
    """Return the model that a `joint.json` describes; its weights are yet to come."""
    shape, decoder = about["encoder_config"], about["decoder_config"]
    if not isinstance(shape, dict) or not isinstance(decoder, dict):
        raise DataError("its shapes are missing")
    config, memory = T5Config(**decoder), str(about["memory"])
    numbers = about["number_tokens"]
    tokens = tuple(numbers) if isinstance(numbers, list) else ()
    answers = about.get("answers", False)  # absent in folders of before there were any
    if type(answers) is not bool:
        raise DataError(f"whether it reads answers is {answers!r}")
    reads = SpanHead(config.d_model) if answers else None
    if about["encoder"] == "bert":
        bert, head = Bert(BertConfig(**shape)), PointerHead(config.d_model)
        return JointModel(bert, T5Decoder(config), head, memory, reads)
    if about["head"] == "pointer":
        encoder, head = T5Encoder(T5Config(**shape)), PointerHead(config.d_model)
        return JointModel(encoder, T5Decoder(config), head, memory, reads)
    return _over(T5(T5Config(**shape)), "index", tokens, memory, answers)


def load_weights(model: JointModel, weights: Mapping[str, torch.Tensor]) -> None:
    """Give a model its weights, after a look at whether all are there and of its shapes."""
    check_weights(model, weights)
    model.load_state_dict({name: w.float() for name, w in weights.items()})


def check_weights(model: JointModel, weights: Mapping[str, torch.Tensor]) -> None:
    """Refuse weights that are not those of a model."""
    for name, wanted in model.state_dict().items():
        if name not in weights:
            raise DataError(f"the weight {name} is missing")
        if weights[name].shape != wanted.shape:
            shapes = f"{tuple(weights[name].shape)} instead of {tuple(wanted.shape)}"
            raise DataError(f"the weight {name} has the shape {shapes}")
    if others := sorted(weights.keys() - model.state_dict().keys()):
        raise DataError(f"the weight {others[0]} is not of this model")
