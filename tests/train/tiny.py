"""An invented pack, a tokenizer of its words, and a tiny random encoder to train on it."""

from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from jpr.io.settings import apply_changes, parse_table
from jpr.models.bert import Bert, to_hugging_face
from jpr.models.checkpoint import write_checkpoint
from jpr.models.config import BertConfig, T5Config
from jpr.models.t5 import T5
from jpr.models.t5_checkpoint import write_t5
from jpr.train.pack import Pack, vocabulary_sha256, write_pack
from jpr.train.recipe import JointTraining
from jpr.train.state import read_log

WORDS = 40
D = 16
SPECIAL = ("[PAD]", "[CLS]", "[SEP]", "[UNK]", ".", "</s>", "question", "index", "title")


def vocabulary() -> dict[str, int]:
    """Words and their ids: those that prompts need, then w0, w1, …"""
    names = [*SPECIAL, "context", ":", *(f"<extra_id_{i}>" for i in range(20))]
    return {word: i for i, word in enumerate([*names, *(f"w{i}" for i in range(WORDS))])}


def write_encoder(folder: Path, seed: int = 0) -> Path:
    """Write a random BERT of one layer with its tokenizer, as a Hugging Face folder."""
    words = vocabulary()
    shape = BertConfig(len(words), D, 1, 2, 32, 160)
    torch.manual_seed(seed)
    weights = to_hugging_face(Bert(shape).state_dict(), shape)
    config = {name: getattr(shape, name) for name in BertConfig.__dataclass_fields__}
    write_checkpoint(folder, config, weights)
    return _with_tokenizer(folder)


def write_tiny_t5(folder: Path, seed: int = 0) -> Path:
    """Write a random T5 of one layer with its tokenizer, as a Hugging Face folder."""
    torch.manual_seed(seed)
    write_t5(folder, T5(T5Config(len(vocabulary()), D, 8, 32, 1, 2, 1)))
    return _with_tokenizer(folder)


def _with_tokenizer(folder: Path) -> Path:
    tokenizer = Tokenizer(WordLevel(vocabulary(), unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def invented_pack(n: int = 8, candidates: int = 6, seed: int = 0) -> Pack:
    """Questions that ask for two words of three; a passage holds an answer if it has the word.

    Question i asks for words a, b; the candidates are in turn passages with a, with b, and without.
    """
    chance = np.random.default_rng(seed)
    first = vocabulary()["w0"]
    asked, passages, edges, answers = [], [], [], []
    for i in range(n):
        expected = chance.choice(WORDS // 2, 2, replace=False)
        asked.append(expected + first)
        for place in range(candidates):
            kind = int(chance.integers(3))
            filler = chance.integers(WORDS // 2, WORDS, 3) + first
            if kind < 2:
                filler[1] = expected[kind] + first
                edges.append(i * candidates + place)
                answers.append(kind)
            passages.append(np.append(filler, first + WORDS // 2 + place))
    return Pack(
        question_tokens=np.concatenate(asked).astype(np.uint16),
        question_starts=np.arange(n + 1) * 2,
        passage_tokens=(np.concatenate(passages).astype(np.uint16),),
        passage_starts=np.arange(n * candidates + 1) * 4,
        title_lengths=np.ones(n * candidates, dtype=np.uint8),
        candidates=np.arange(n * candidates, dtype=np.uint32),
        candidate_starts=np.arange(n + 1) * candidates,
        scores=np.zeros(n * candidates, dtype=np.float16),
        cover_edges=np.array(edges, dtype=np.uint32),
        cover_answers=np.array(answers, dtype=np.uint16),
        span_covers=np.arange(len(edges), dtype=np.uint32),
        span_offsets=np.ones(len(edges), dtype=np.uint16),
        span_lengths=np.ones(len(edges), dtype=np.uint8),
        n_answers=np.full(n, 2, dtype=np.uint16),
        sources=np.zeros(n, dtype=np.uint8),
        question_ids=tuple(f"q{i}" for i in range(n)),
        about={
            "vocabulary_sha256": vocabulary_sha256(vocabulary()),
            "limits": {"max_question": 64, "max_title": 32, "max_text": 256},
        },
    )


def write_invented(folder: Path, n: int = 8, candidates: int = 6, seed: int = 0) -> Path:
    """Write an invented pack to a folder."""
    write_pack(folder, invented_pack(n, candidates, seed))
    return folder


def tiny_recipe(home: Path, shape: tuple[int, int, int], *changes: str) -> JointTraining:
    """A recipe for the encoder and the pack of a folder: (questions, candidates, k)."""
    questions, candidates, k = shape
    given: dict[str, object] = {
        "k": k,
        "batch": questions,
        "candidates": candidates,
        "model": {
            "weights": str(home / "encoder"),
            "dropout": 0.0,
            "layers": 1,
            "max_tokens": 128,
        },
        "data": [{"pack": str(home / "pack")}],
        "dev": {"packs": [str(home / "pack")]},
        "loop": {
            "steps": 100,
            "learning_rate": 4e-3,
            "fresh_learning_rate": 4e-3,
            "warmup": 10,
            "eval_every": 100,
        },
    }
    return parse_table(JointTraining, apply_changes(given, changes), "a recipe")


def losses(folder: Path) -> list[float]:
    """The losses in the log of a run."""
    return [float(str(line["loss"])) for line in read_log(folder / "log.jsonl") if "loss" in line]
