"""Tiny random T5s of both generations: the library's, and ours with the same weights."""

from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import T5Config as TheirConfig
from transformers import T5ForConditionalGeneration

from jpr.models.generation import GenerateOptions, best_sequences
from jpr.models.t5 import T5
from jpr.models.t5_checkpoint import t5_from_weights

SHAPE: dict[str, Any] = {
    "vocab_size": 50,
    "d_model": 24,
    "d_kv": 8,  # the heads together are wider than the model, as in flan-t5-small they are narrower
    "d_ff": 40,
    "num_layers": 3,
    "num_decoder_layers": 2,
    "num_heads": 4,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 20,
    "decoder_start_token_id": 0,
}
LENGTHS = [9, 1, 30, 9, 17]
GENERATIONS: dict[str, dict[str, Any]] = {
    "v1.0": {"feed_forward_proj": "relu", "tie_word_embeddings": True},
    "v1.1": {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
}
generations = pytest.mark.parametrize("generation", list(GENERATIONS))


def theirs(generation: str) -> Any:  # noqa: ANN401  # no types there
    torch.manual_seed(5)
    config = TheirConfig(**SHAPE, **GENERATIONS[generation])
    config.tie_word_embeddings = generation == "v1.0"  # which their constructor overrules
    model = T5ForConditionalGeneration(config)
    for name, weight in model.named_parameters():  # their own start is too even to show a mistake
        around = 1.0 if "norm" in name else 0.0
        torch.nn.init.normal_(weight, mean=around, std=0.2)
    for side in (model.encoder, model.decoder):
        side.embed_tokens.weight = model.shared.weight
    model.eval()  # type: ignore[no-untyped-call]  # no types there
    return model


def ours(model: Any) -> T5:  # noqa: ANN401
    copies = {name: weight.clone() for name, weight in model.state_dict().items()}
    return t5_from_weights(model.config.to_dict(), copies)


def batch() -> tuple[Tensor, Tensor, Tensor]:
    """Padded ids, lengths, and which ids count."""
    chance = torch.Generator().manual_seed(1)
    lengths = torch.tensor(LENGTHS)
    inside = torch.arange(max(LENGTHS))[None] < lengths[:, None]
    ids = torch.randint(2, 50, inside.shape, generator=chance)
    return ids.masked_fill(~inside, 0), lengths, inside


def close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def generate_tokens(model: T5, memory: Tensor, lengths: Tensor, longest: int) -> list[list[int]]:
    """Return greedy tokens of each question, to the end token or the longest."""
    end = model.config.eos_token_id
    found = best_sequences(model, memory, lengths, GenerateOptions(0, longest))
    rows = [tokens for tokens, _ in found]
    return [row[: row.index(end) + 1] if end in row else row for row in rows]
