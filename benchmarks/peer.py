"""Shapes of our models as transformers' configurations."""

from typing import TYPE_CHECKING

from jpr.models.config import T5Config

if TYPE_CHECKING:
    import transformers


def peer_config(shape: T5Config, dropout: float = 0.1) -> "transformers.T5Config":
    """Return transformers' configuration of a shape."""
    import transformers

    return transformers.T5Config(
        vocab_size=shape.vocab_size,
        d_model=shape.d_model,
        d_kv=shape.d_kv,
        d_ff=shape.d_ff,
        num_layers=shape.num_layers,
        num_heads=shape.num_heads,
        dropout_rate=dropout,
    )
