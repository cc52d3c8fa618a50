"""Folders of joint models, and joint models made from Hugging Face checkpoints.

FOLDER/joint.json          the kind of model, the shapes of its parts, its prompt, the hashes
                           of the other files
FOLDER/model.safetensors   the weights, in 16 or 32 bits, under our own names
FOLDER/tokenizer.json
"""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from jpr.errors import ConfigError, DataError, FormatError
from jpr.io.checksums import check_sums, write_folder
from jpr.models.bert import Bert, from_hugging_face
from jpr.models.checkpoint import load_weights, read_checkpoint, shapes_only, write_checkpoint
from jpr.models.config import BertConfig, T5Config
from jpr.models.heads import IndexHead, PointerHead
from jpr.models.joint import JointModel
from jpr.models.joint_config import FORMAT, JOINT_JSON, KIND, read_joint_json
from jpr.models.t5 import T5, T5Decoder, T5Encoder
from jpr.models.t5_checkpoint import read_t5

HEADS = ("pointer", "index")


def joint_over_bert(
    folder: Path,
    layers: int = 2,
    dropout: float = 0.0,
    memory: str = "passages",
    answers: bool = False,
) -> JointModel:
    """Put a new pointer decoder over the encoder of a Hugging Face BERT."""
    config, weights = read_checkpoint(folder)
    shape = BertConfig.from_dict(config)
    bert = Bert(shape, dropout)
    bert.load_state_dict(from_hugging_face(weights, shape))
    d, heads = shape.hidden_size, shape.num_attention_heads
    head = PointerHead(d)
    like = T5Config(1, d, d // heads, shape.intermediate_size, 1, heads, layers)
    return JointModel(bert, T5Decoder(like, dropout), head, memory, answers)


def joint_over_t5(
    folder: Path,
    head: str,
    index_tokens: tuple[int, ...],
    dropout: float = 0.0,
    memory: str = "tokens",
    answers: bool = False,
) -> JointModel:
    """Make a joint model of a Hugging Face T5, with all its weights."""
    t5 = read_t5(folder, dropout=dropout)
    made = _head_over_t5(t5, head, index_tokens)
    return JointModel(t5.encoder, t5.decoder, made, memory, answers)


def _head_over_t5(t5: T5, head: str, index_tokens: tuple[int, ...]) -> PointerHead | IndexHead:
    if head == "pointer":
        return PointerHead(t5.config.d_model)
    if head != "index":
        raise ConfigError(f"head {head!r}; choose from {', '.join(HEADS)}")
    words = t5.encoder.words
    out = words.weight if t5.config.tie_word_embeddings else t5.head.weight
    return IndexHead(words, out, t5.config.decoder_start_token_id, index_tokens)


def write_joint(
    folder: Path,
    model: JointModel,
    prompt: Mapping[str, object],
    decoding: Mapping[str, object] | None = None,
) -> None:
    """Write a model's folder except for its tokenizer, which must exist.

    `prompt` says how its texts are put together, `decoding` how passages are best chosen with it.
    """
    head = model.head
    about = {
        "format": FORMAT,
        "kind": KIND,
        "encoder": "bert" if isinstance(model.encoder, Bert) else "t5",
        "encoder_config": asdict(model.encoder.config),
        "decoder_config": asdict(model.decoder.config),
        "head": "index" if isinstance(head, IndexHead) else "pointer",
        "memory": model.memory,
        "answers": model.answers is not None,
        "number_tokens": head.tokens.tolist() if isinstance(head, IndexHead) else [],
        "prompt": dict(prompt),
        **({"decoding": dict(decoding)} if decoding else {}),
    }
    weights = {name: w for name, w in model.state_dict().items() if name != "head.words.weight"}
    config: dict[str, object] = {"model_type": "jpr-joint"}
    write_folder(folder / JOINT_JSON, about, lambda: write_checkpoint(folder, config, weights))


def read_joint(folder: Path) -> JointModel:
    """Read a model."""
    about, sums = read_joint_json(folder)
    check_sums(sums)
    _, weights = read_checkpoint(folder)
    if "answers.ends.weight" in weights and "answers.first.weight" not in weights:
        problem = "has the span head of jpr 0.1, which reads one answer from a passage, not several"
        raise FormatError(folder, 0, f"{problem}; train it again: jpr train, with model.weights")
    try:
        model = joint_shape(about)
        if isinstance(model.head, IndexHead):
            weights["head.words.weight"] = weights["encoder.words.weight"]
        load_weights(model, {name: w.float() for name, w in weights.items()})
    except (LookupError, TypeError, ValueError, RuntimeError, DataError, ConfigError) as error:
        raise FormatError(folder, 0, f"is damaged ({error}); copy it again") from error
    return model


def joint_shape(about: Mapping[str, object]) -> JointModel:
    """Return the model that a `joint.json` describes, without memory for its weights."""
    shape, decoder = about["encoder_config"], about["decoder_config"]
    if not isinstance(shape, dict) or not isinstance(decoder, dict):
        raise DataError("its shapes are missing")
    config, numbers = T5Config(**decoder), about["number_tokens"]
    tokens = tuple(numbers) if isinstance(numbers, list) else ()
    answers = about.get("answers", False)  # absent in folders of early versions
    if type(answers) is not bool:
        raise DataError(f"answers is {answers!r}; it must be true or false")
    with shapes_only():
        if about["encoder"] == "bert":
            encoder: Bert | T5Encoder = Bert(BertConfig(**shape))
            head: PointerHead | IndexHead = PointerHead(config.d_model)
        else:
            t5 = T5(T5Config(**shape))
            kind = "pointer" if about["head"] == "pointer" else "index"
            encoder, head = t5.encoder, _head_over_t5(t5, kind, tokens)
        return JointModel(encoder, T5Decoder(config), head, str(about["memory"]), answers)
