"""Shapes of BERT, MPNet and T5, as in Hugging Face's config.json; without torch."""

from collections.abc import Mapping
from dataclasses import dataclass, fields

from jpr.errors import DataError

_MAX_SIZE, _MAX_LAYERS = 1 << 24, 1000


@dataclass(frozen=True, slots=True)
class BertConfig:
    """The shape of an encoder."""

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
        _check(self)

    @classmethod
    def from_dict(cls, config: Mapping[str, object]) -> "BertConfig":
        """Read the fields of a config.json, ignoring all others."""
        known = {name: config[name] for name in cls.__dataclass_fields__ if name in config}
        try:
            return cls(**known)  # type: ignore[arg-type]  # checked on construction
        except TypeError as error:
            raise DataError(f"config.json is not that of a BERT or MPNet: {error}") from error


@dataclass(frozen=True, slots=True)
class T5Config:
    """The shape of a T5."""

    vocab_size: int
    d_model: int
    d_kv: int
    d_ff: int
    num_layers: int
    num_heads: int
    num_decoder_layers: int
    relative_attention_num_buckets: int = 32
    relative_attention_max_distance: int = 128
    layer_norm_epsilon: float = 1e-6
    feed_forward_proj: str = "relu"
    """`relu` in the first generation, `gated-gelu` in v1.1 and flan."""
    tie_word_embeddings: bool = True
    """Whether the output layer is the input embedding."""
    scale_decoder_outputs: bool = True
    """Whether the decoder's vectors are divided by √d before the output layer, as in v1.0."""
    pad_token_id: int = 0
    eos_token_id: int = 1
    decoder_start_token_id: int = 0

    def __post_init__(self) -> None:
        _check(self)
        if (kind := self.feed_forward_proj) not in ("relu", "gated-gelu"):
            raise DataError(f"feed_forward_proj is {kind!r}; known are relu and gated-gelu")

    @classmethod
    def from_dict(cls, config: Mapping[str, object]) -> "T5Config":
        """Read the fields of a config.json, ignoring all others."""
        kind = config.get("model_type")
        if kind != "t5":
            raise DataError(f"config.json is not that of a T5: its model_type is {kind!r}")
        known = {name: config[name] for name in cls.__dataclass_fields__ if name in config}
        if known.get("num_decoder_layers") is None:
            known["num_decoder_layers"] = known.get("num_layers")
        known.setdefault("decoder_start_token_id", known.get("pad_token_id", 0))
        known.setdefault("scale_decoder_outputs", known.get("tie_word_embeddings", True))
        try:
            return cls(**known)  # type: ignore[arg-type]  # checked on construction
        except (TypeError, DataError) as error:
            raise DataError(f"config.json of a T5: {error}") from error

    @property
    def inner(self) -> int:
        """Width of all heads together, which may differ from `d_model`."""
        return self.num_heads * self.d_kv

    @property
    def is_gated(self) -> bool:
        """Whether the feed-forward layers have gates."""
        return self.feed_forward_proj != "relu"


def _check(config: BertConfig | T5Config) -> None:
    """Reject sizes that no model has, before memory is allocated for them."""
    for field in fields(config):
        value = getattr(config, field.name)
        if field.type is int and not field.name.endswith("_token_id"):
            most = _MAX_LAYERS if "layers" in field.name else _MAX_SIZE
            if type(value) is not int or not 0 < value <= most:
                raise DataError(f"{field.name} is {value!r:.40}; give a number from 1 to {most}")
        elif field.type in (float, bool) and type(value) is not field.type:
            kind = "true or false" if field.type is bool else "a number"
            raise DataError(f"{field.name} is {value!r:.40}; give {kind}")
