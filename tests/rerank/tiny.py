"""Tiny random joint models in folders, with a tokenizer of a few words."""

from dataclasses import asdict
from pathlib import Path

import torch

from jpr.models.bert import Bert
from jpr.models.config import BertConfig, T5Config
from jpr.models.heads import IndexHead, PointerHead
from jpr.models.joint import JointModel
from jpr.models.joint_checkpoint import write_joint
from jpr.models.t5 import T5, T5Decoder
from jpr.rerank.prompt import PromptSettings
from jpr.types import Hit, Passage, Question, Ranking
from tests.rerank.words import NAMES as NAMES
from tests.rerank.words import NUMBER_TOKENS as NUMBER_TOKENS
from tests.rerank.words import WORDS as WORDS
from tests.rerank.words import tokenizer as tokenizer

QUESTION = Question("q", "which colour ?")


def hits(names: list[str]) -> list[Hit]:
    return [
        Hit(Passage(name, name, f"{name} which {name}", {"place": i}), 1.0 / (i + 1))
        for i, name in enumerate(names)
    ]


def ranking(names: list[str] = NAMES, id: str = "q") -> Ranking:
    return Ranking(Question(id, QUESTION.text), tuple(hits(names)))


def write_pointer(folder: Path, seed: int = 0, answers: bool = False) -> Path:
    """A pointer over a BERT."""
    torch.manual_seed(seed)
    bert = Bert(BertConfig(len(WORDS), 16, 1, 2, 32, 300))
    decoder = T5Decoder(T5Config(1, 16, 8, 32, 1, 2, 1))
    model = JointModel(bert, decoder, PointerHead(16), "passages", answers)
    return _written(folder, model, PromptSettings())


def write_t5(folder: Path, head: str, seed: int = 0, answers: bool = False) -> Path:
    """A T5 with one head or the other."""
    torch.manual_seed(seed)
    t5 = T5(T5Config(len(WORDS), 16, 8, 32, 1, 2, 1))
    numbers = NUMBER_TOKENS if head == "index" else NUMBER_TOKENS[:1]
    made: PointerHead | IndexHead = PointerHead(16)
    if head == "index":
        made = IndexHead(t5.encoder.words, t5.encoder.words.weight, 0, numbers)
    settings = PromptSettings("t5", number_tokens=numbers)
    return _written(folder, JointModel(t5.encoder, t5.decoder, made, "tokens", answers), settings)


def _written(folder: Path, model: JointModel, settings: PromptSettings) -> Path:
    if model.answers is not None:
        torch.nn.init.zeros_(model.answers.ends.bias)  # or it would find no answer likely
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(tokenizer().to_str(), encoding="utf-8")
    write_joint(folder, model, asdict(settings))
    return folder
