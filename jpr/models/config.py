"""The shape of a T5, and how many weights it has: without torch."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from jpr.errors import DataError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_SIZES = (
    "vocab_size",
    "d_model",
    "d_kv",
    "d_ff",
    "num_layers",
    "num_heads",
    "num_decoder_layers",
    "relative_attention_num_buckets",
    "relative_attention_max_distance",
)
_FEEDS = ("relu", "gated-gelu")
_LARGEST, _DEEPEST = 1 << 24, 1000


def check_shape(config: "DataclassInstance") -> None:
    """Refuse numbers that no model has, before room is made for as many."""
    for field in fields(config):
        value = getattr(config, field.name)
        if field.type is int and not field.name.endswith("_token_id"):
            most = _DEEPEST if "layers" in field.name else _LARGEST
            if not isinstance(value, int) or not 0 < value <= most:
                raise DataError(f"{field.name} is {value!r:.40}; no model has that")
        elif field.type is float and not isinstance(value, float):
            raise DataError(f"{field.name} is {value!r:.40}; it should be a number")


@dataclass(frozen=True, slots=True)
class T5Config:
    """The shape of a T5, as in Hugging Face's config.json."""

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
    """Whether words come out by the matrix by which they go in."""
    scale_decoder_outputs: bool = True
    """Whether the decoder's vectors are divided by √d before the head: so in v1.0."""
    pad_token_id: int = 0
    eos_token_id: int = 1
    decoder_start_token_id: int = 0

    def __post_init__(self) -> None:
        check_shape(self)

    @classmethod
    def of(cls, config: Mapping[str, object]) -> "T5Config":
        """Take what is needed of a config.json."""
        kind = config.get("model_type")
        if kind != "t5":
            raise DataError(f"config.json is not that of a T5: its model_type is {kind!r}")
        known = {name: config[name] for name in cls.__dataclass_fields__ if name in config}
        if known.get("num_decoder_layers") is None:
            known["num_decoder_layers"] = known.get("num_layers")
        known.setdefault("decoder_start_token_id", known.get("pad_token_id", 0))
        known.setdefault("scale_decoder_outputs", known.get("tie_word_embeddings", True))
        for name in _SIZES:
            size = known.setdefault(name, cls.__dataclass_fields__[name].default)
            if type(size) is not int or size < 1:
                given = config.get(name)
                raise DataError(
                    f"config.json of a T5 has {name} = {given!r}; give a positive number"
                )
        if (feed := known.get("feed_forward_proj", "relu")) not in _FEEDS:
            told = f"feed_forward_proj = {feed!r}; known are {' and '.join(_FEEDS)}"
            raise DataError(f"config.json of a T5 has {told}")
        if type(ties := known.get("tie_word_embeddings", True)) is not bool:
            raise DataError(
                f"config.json of a T5 has tie_word_embeddings = {ties!r}; give true or false"
            )
        return cls(**known)  # type: ignore[arg-type]  # the rest is checked by use

    @property
    def inner(self) -> int:
        """The width of all heads together, which need not be the model's."""
        return self.num_heads * self.d_kv

    @property
    def is_gated(self) -> bool:
        """Whether the feed-forward layers have gates."""
        return self.feed_forward_proj != "relu"
