"""Real encoders, but tiny and random: as Hugging Face folders."""

import json
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from torch import Tensor

from jpr.models.bert import Bert, to_hugging_face
from jpr.models.checkpoint import write_checkpoint
from jpr.models.config import BertConfig
from tests.encode.texts import WORDS

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", ":", "?", "##s", *WORDS]
ID = {word: i for i, word in enumerate(VOCABULARY)}
CONFIG: dict[str, object] = {
    "vocab_size": len(VOCABULARY),
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 48,
    "type_vocab_size": 2,
    "model_type": "bert",
    "pad_token_id": 0,
    "hidden_act": "gelu",
}


def random_weights(config: dict[str, object], seed: int = 0) -> dict[str, Tensor]:
    """Weights under Hugging Face's names, large enough that attention is far from even."""
    shape = BertConfig.from_dict(config)
    chance = torch.Generator().manual_seed(seed)
    weights = to_hugging_face(Bert(shape).state_dict(), shape)
    return {
        name: torch.randn(w.shape, generator=chance) * (0.3 if w.dim() > 1 else 0.1)
        + (1 if name.endswith("LayerNorm.weight") else 0)
        for name, w in weights.items()
    }


def tiny_tokenizer() -> Tokenizer:
    model = models.WordPiece(vocab=ID, unk_token="[UNK]")
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    return tokenizer


def write_tokenizer(folder: Path) -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.enable_truncation(4)  # as published ones do; it must not matter
    tokenizer.save(str(folder / "tokenizer.json"))


def write_encoder(folder: Path, seed: int = 0, **changes: object) -> Path:
    """Write a folder like those of the Hugging Face hub."""
    config = {**CONFIG, **changes}
    write_checkpoint(folder, config, random_weights(config, seed))
    write_tokenizer(folder)
    return folder


def write_json(file: Path, value: object) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(value), encoding="utf-8")
