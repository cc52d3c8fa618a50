"""Tiny random joint models in folders, with a tokenizer of a few words."""

from dataclasses import asdict
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers

from jpr.models.answers import Answers
from jpr.models.bert import Bert, BertConfig
from jpr.models.joint import IndexHead, JointModel, PointerHead
from jpr.models.joint_folder import write_joint
from jpr.models.t5 import T5, T5Config, T5Decoder
from jpr.rerank.prompt import PromptSettings
from jpr.types import Hit, Passage, Question, Ranking

NAMES = ["red", "green", "blue", "black", "white", "brown", "pink", "grey", "gold", "lime"]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "</s>", "."]
PROMPT = ["question", "index", "title", "context", ":", "which", "colour", "?"]
NUMBERS = [f"<{i}>" for i in range(12)]
WORDS = {word: i for i, word in enumerate([*SPECIAL, *PROMPT, *NAMES, *NUMBERS])}
NUMBER_TOKENS = tuple(WORDS[number] for number in NUMBERS)
QUESTION = Question("q", "which colour ?")


def tokenizer() -> Tokenizer:
    made = Tokenizer(models.WordLevel(WORDS, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.add_special_tokens(["[CLS]", "[SEP]", "</s>", *NUMBERS])
    return made


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
    reads = Answers(16) if answers else None
    model = JointModel(bert, decoder, PointerHead(16), "passages", reads)
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
    reads = Answers(16) if answers else None
    return _written(folder, JointModel(t5.encoder, t5.decoder, made, "tokens", reads), settings)


def _written(folder: Path, model: JointModel, settings: PromptSettings) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(tokenizer().to_str(), encoding="utf-8")
    write_joint(folder, model, asdict(settings))
    return folder
