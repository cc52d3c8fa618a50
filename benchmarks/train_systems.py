"""What `train.py` trains: models of ours and of transformers, on a pack that is invented."""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
import transformers
from numpy.typing import NDArray
from peer import peer_config
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from torch import Tensor, nn

from jpr.io.settings import parse_table
from jpr.models.bert import Bert
from jpr.models.candidates import PackedCandidates
from jpr.models.config import BertConfig, T5Config
from jpr.models.heads import PointerHead
from jpr.models.joint import JointModel
from jpr.models.padding import length_mask, pad_rows
from jpr.models.t5 import T5, T5Decoder
from jpr.models.t5_checkpoint import to_hugging_face
from jpr.rerank.prompt import Prompts, PromptSettings
from jpr.train.batch import BatchBuilder
from jpr.train.loop import LossOf, PartialLoss
from jpr.train.loss import JointLoss, choice_loss, steps_of
from jpr.train.pack import Pack, vocabulary_sha256, write_pack
from jpr.train.recipe import JointTraining
from jpr.train.sampler import Dataset, Sampler

K, DROPOUT, DECODER_LAYERS = 5, 0.1, 2
QUESTION, TITLE, PROMPT = 10, 4, 10
"""Tokens of a question, of a title, and between them; the text has the rest."""
REAL, FULL = "real", "full"
WORDS = (
    *("[CLS]", "[SEP]", ".", "</s>"),
    *("question", "index", "title", "context", ":", "<extra_id_0>"),
)
Shape = T5Config | BertConfig


@dataclass(frozen=True, slots=True)
class Size:
    """How large everything is."""

    device: str
    shapes: dict[str, tuple[Shape, int]]
    """Of encoders, each with the questions of a step."""
    pool: int
    """Candidates per question in the pack, …"""
    candidates: int
    """… and those sample of them."""
    usual: int
    """Tokens of question and passage that half of them exceed, …"""
    longest: int
    """… and the most there are."""
    warm_up: int
    steps: int
    product: int
    """The size of the square matrices."""


LARGE = Size(
    "cuda",
    {
        "T5-base": (T5Config(32128, 768, 64, 3072, 12, 12, 12), 8),
        "BERT 6 x 384": (BertConfig(30522, 384, 6, 12, 1536, 512), 32),
        "BERT 12 x 384": (BertConfig(30522, 384, 12, 12, 1536, 512), 32),
    },
    *(100, 25, 150, 256, 3, 8, 8192),
)
TINY = Size(
    "cpu",
    {
        "T5, tiny": (T5Config(200, 16, 8, 32, 1, 2, 1), 2),
        "BERT, tiny": (BertConfig(200, 16, 1, 2, 32, 256), 2),
    },
    *(8, 6, 60, 112, 1, 2, 128),
)


def invented(size: Size, lengths: str, words: int) -> Pack:
    """Make a pack of random tokens; a question has up to 5 answers, each in up to 4 candidates."""
    chance, n = np.random.default_rng(0), 4 * max(count for _, count in size.shapes.values())
    rows = n * size.pool
    sample = chance.lognormal(math.log(size.usual), 0.25, rows).clip(size.usual / 3, size.longest)
    whole = sample.astype(np.int64) if lengths == REAL else np.full(rows, size.longest + PROMPT)
    each = whole - QUESTION - PROMPT
    covers = np.zeros((n, size.pool, K), dtype=np.bool_)
    for question, answers in enumerate(chance.integers(1, K + 1, n)):
        for answer in range(answers):
            places = chance.choice(size.pool, chance.integers(1, 5), replace=False)
            covers[question, places, answer] = True
    edges, answers = np.nonzero(covers.reshape(rows, K))
    tokens = chance.integers(len(WORDS), words, n * QUESTION + int(each.sum())).astype(np.uint16)
    return Pack(
        question_tokens=tokens[: n * QUESTION],
        question_starts=np.arange(n + 1) * QUESTION,
        passage_tokens=(tokens[n * QUESTION :],),
        passage_starts=np.append(0, each.cumsum()),
        title_lengths=np.full(rows, TITLE, dtype=np.uint8),
        candidates=np.arange(rows, dtype=np.uint32),
        candidate_starts=np.arange(n + 1) * size.pool,
        scores=np.zeros(rows, dtype=np.float16),
        cover_edges=edges.astype(np.uint32),
        cover_answers=answers.astype(np.uint16),
        span_covers=np.arange(len(edges), dtype=np.uint32),
        span_offsets=np.full(len(edges), TITLE + 1, dtype=np.uint16),
        span_lengths=np.full(len(edges), 2, dtype=np.uint8),
        n_answers=covers.any(axis=1).sum(axis=1).astype(np.uint16),
        sources=np.zeros(n, dtype=np.uint8),
        question_ids=tuple(map(str, range(n))),
        about={
            "vocabulary_sha256": vocabulary_sha256({w: i for i, w in enumerate(WORDS)}),
            "limits": {"max_question": 64, "max_title": 32, "max_text": 256},
        },
    )


class Task:
    """A pack on the device, the recipe to train by, and what is sample."""

    def __init__(self, size: Size, name: str, lengths: str, folder: Path) -> None:
        """Write the pack of a shape to a folder and open it."""
        self.size, (self.shape, questions) = size, size.shapes[name]
        write_pack(folder, invented(size, lengths, self.shape.vocab_size))
        self.dataset = Dataset(Pack.open(folder))
        self.config: JointTraining = parse_table(
            JointTraining,
            {
                "k": K,
                "batch": questions,
                "candidates": size.candidates,
                "model": {"weights": "random", "dropout": DROPOUT},
                "data": [{"pack": str(folder)}],
                "loop": {"steps": size.warm_up + size.steps + 1, "log_every": 1000},
            },
            "the benchmark's recipe",
        )
        n = size.candidates
        self.sampler = Sampler([self.dataset], batch=questions, candidates=n, k=K, seed=0)
        tokenizer = Tokenizer(WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token="."))
        tokenizer.pre_tokenizer = Whitespace()
        style = "t5" if isinstance(self.shape, T5Config) else "bert"
        number = WORDS.index("<extra_id_0>")
        settings = PromptSettings(style, max_tokens=size.longest, number_tokens=(number,))
        self.builder = BatchBuilder(self.dataset.pack, Prompts(tokenizer, settings), size.device)

    def lengths(self, step: int) -> NDArray[np.int64]:
        """Return how many tokens the candidates of a step have (R,)."""
        (sample,) = self.sampler.part(step, 0, 1, 0)
        found: NDArray[np.int64] = self.builder.build(sample.batch).lengths.cpu().numpy()
        return found


def joint_model(shape: Shape) -> JointModel:
    """Make a model of ours at random."""
    if isinstance(shape, T5Config):
        t5 = T5(shape, DROPOUT)
        return JointModel(t5.encoder, t5.decoder, PointerHead(shape.d_model), "tokens")
    d, heads = shape.hidden_size, shape.num_attention_heads
    decoder = T5Config(1, d, d // heads, shape.intermediate_size, 1, heads, DECODER_LAYERS)
    head = PointerHead(d)
    return JointModel(Bert(shape, DROPOUT), T5Decoder(decoder, DROPOUT), head, "passages")


def operations(model: JointModel, lengths: NDArray[np.int64], questions: int) -> float:
    """Count the operations of a step, forward and backward."""
    shape = model.decoder.config  # as wide as the encoder, in all parts
    d, inner, passages, tokens = shape.d_model, shape.inner, len(lengths), int(lengths.sum())
    block = 4 * d * inner + 2 * d * shape.d_ff
    steps, memory = questions * K, tokens if model.memory == "tokens" else passages
    encoder = 6 * block * tokens + 12 * inner * int((lengths**2).sum())
    decoder = 6 * (block + 2 * d * inner) * steps + 6 * 2 * d * inner * memory
    attention = 12 * inner * K * (memory + steps)
    head = 6 * d * d * (2 * passages + steps)
    layers = len(model.encoder.blocks), len(model.decoder.blocks)
    return float(layers[0] * encoder + layers[1] * (decoder + attention) + head)


class Fusion(nn.Module):
    """The same with transformers' T5, as one would write it down."""

    def __init__(self, shape: T5Config, attention: str) -> None:
        """Make a model at random."""
        super().__init__()
        config = peer_config(shape, DROPOUT)
        self.t5 = transformers.T5Model._from_config(config, attn_implementation=attention)  # type: ignore[no-untyped-call]
        d = shape.d_model
        self.start = nn.Parameter(torch.randn(d))
        self.query, self.key, self.chosen = (nn.Linear(d, d, bias=False) for _ in range(3))
        self.prior = nn.Parameter(torch.zeros(()))

    def forward(self, candidates: PackedCandidates, prefixes: Tensor) -> Tensor:
        """Return log P(candidate | prefix) of every prefix, (Q, T) to (Q, T + 1, C)."""
        q, lengths = len(candidates.counts), candidates.lengths
        there = length_mask(lengths, int(lengths.max()))
        ids = pad_rows(candidates.ids, there)
        hidden = self.t5.encoder(input_ids=ids, attention_mask=there.long()).last_hidden_state
        row = torch.arange(len(hidden), device=hidden.device)
        keys = self.key(hidden[row, candidates.marks]).view(q, len(hidden) // q, -1)
        chosen = self.chosen(keys).gather(1, prefixes[..., None].expand(-1, -1, keys.shape[-1]))
        x = torch.cat([self.start.expand(q, 1, -1), chosen], dim=1)
        out = self.t5.decoder(
            inputs_embeds=x,
            encoder_hidden_states=hidden.reshape(q, -1, hidden.shape[-1]),
            encoder_attention_mask=there.long().view(q, -1),
            use_cache=False,
        ).last_hidden_state
        logits = (self.query(out) @ keys.transpose(1, 2)).float() * keys.shape[-1] ** -0.5
        logits = logits + self.prior * candidates.prior.view(q, 1, -1)
        taken = F.one_hot(prefixes, keys.shape[1]).cumsum(1) > 0
        taken = F.pad(taken, (0, 0, 1, 0))
        log_probs: Tensor = logits.masked_fill(taken, -torch.inf).log_softmax(dim=-1)
        return log_probs


def fusion_loss(model: Fusion, task: Task) -> LossOf:
    """Return the loss of a step."""

    def loss_of(step: int, part: int, parts: int) -> PartialLoss:
        config = task.config
        (sample,) = task.sampler.part(step, 0, 1, 0)
        sequences, targets = steps_of(sample, config.objective, config.k)
        candidates = task.builder.build(sample.batch)
        device = candidates.ids.device
        prefixes = torch.from_numpy(np.maximum(sequences[:, :-1], 0)).to(device)
        log_probs = model(candidates, prefixes)
        chosen = torch.from_numpy(targets).to(device)
        loss = choice_loss(log_probs, chosen, config.objective.normalize)
        return PartialLoss(loss / config.batch, len(candidates.ids))

    return loss_of


def joint_loss(model: JointModel, task: Task) -> LossOf:
    """Return the loss of a step, by the code that trains."""
    return JointLoss(model, task.sampler, {task.dataset: task.builder}, task.config)


def with_weights_of(model: JointModel, shape: T5Config, attention: str) -> Fusion:
    """Make the same model with transformers."""
    theirs, weights = Fusion(shape, attention), model.state_dict()
    of_t5 = {name: w for name, w in weights.items() if name.startswith(("encoder.", "decoder."))}
    theirs.t5.load_state_dict(to_hugging_face(of_t5, shape), strict=False)  # words are tied
    own = {name: weights[f"head.{name}"] for name in theirs.state_dict() if "t5." not in name}
    theirs.load_state_dict(own, strict=False)
    return theirs.to(next(model.parameters()).device)
