"""Training of dual encoders, DPR⁺ (appendix A); recipes/dpr_plus.py runs it.

The paper prints inner products in its loss; the objective of DPR, used here, is their softmax:

    L = -log  exp s(q, p⁺) / Σ_{p ∈ {p⁺} ∪ B⁻} exp s(q, p)        s = scale · f_q(q)ᵀ f_p(p)

*Distant negatives* (`train_distant`): B⁻ is one hard and one random passage per question, and all
passages of the other questions in the batch, except those known to contain an answer. *Full*
(`train_full`): B⁻ is the whole corpus, its vectors frozen; only the question tower learns. With a
`Teacher`, the student also learns the teacher's distribution over the same passages.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from jpr.errors import ConfigError
from jpr.models.bert import Bert, pool
from jpr.train.batch import as_tensor, concatenate_pieces
from recipes.mining import Example

Log = Callable[[int, float], None]
"""Called every 100 steps with the step and the loss."""


@dataclass(frozen=True, slots=True)
class TokenRows:
    """Texts as token ids end to end, without the special tokens around each.

    >>> rows = TokenRows.of([[5, 6, 7], [8]], head=(101,), tail=102)
    >>> ids, lengths = rows.packed(torch.tensor([1, 0]), longest=4)
    >>> ids.tolist(), lengths.tolist()
    ([101, 8, 102, 101, 5, 6, 102], [3, 4])
    """

    ids: Tensor
    """(N,) the tokens of all rows, then what stands before each ([CLS], a prompt) and after."""
    starts: Tensor
    """(R,) where each row begins."""
    ends: Tensor
    """(R,) where each row ends."""
    around: int
    """Where the tokens of the rows end, and those around them begin."""

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]], head: tuple[int, ...], tail: int) -> "TokenRows":
        """Concatenate rows."""
        flat = np.concatenate([np.asarray(row, dtype=np.uint16) for row in rows])
        return cls.flat(flat, np.array([len(row) for row in rows]), head, tail)

    @classmethod
    def flat(
        cls, ids: NDArray[np.uint16], lengths: NDArray[np.int64], head: tuple[int, ...], tail: int
    ) -> "TokenRows":
        """Take rows that are already end to end."""
        ends = torch.from_numpy(np.cumsum(lengths, dtype=np.int64))
        around = np.array([*head, tail], dtype=np.uint16)
        return cls(as_tensor(ids, around), ends - torch.from_numpy(lengths), ends, len(ids))

    def to(self, device: str) -> "TokenRows":
        """Move the tokens to a device, where batches are then made."""
        ids, starts, ends = (part.to(device) for part in (self.ids, self.starts, self.ends))
        return TokenRows(ids, starts, ends, self.around)

    def without(self, first: Tensor) -> "TokenRows":
        """Leave out the first tokens of each row, as many as `first` (R,) says."""
        return replace(self, starts=self.starts + first.to(self.starts.device))

    def __len__(self) -> int:
        return len(self.starts)

    def lengths(self, rows: Tensor, longest: int) -> Tensor:
        """Return how many tokens each of these rows has in a batch."""
        return self._pieces(rows, longest)[1].sum(1)

    def packed(self, rows: Tensor, longest: int) -> tuple[Tensor, Tensor]:
        """Return these rows end to end, ids (N,) and lengths (B,); long ones lose their end."""
        starts, lengths = self._pieces(rows, longest)
        return concatenate_pieces(self.ids, starts, lengths), lengths.sum(1)

    def _pieces(self, rows: Tensor, longest: int) -> tuple[Tensor, Tensor]:
        """Return where head, text and tail of each row begin, and their lengths (B, 3)."""
        first, last = self.starts[rows], len(self.ids) - 1
        head, tail = torch.full_like(first, self.around), torch.full_like(first, last)
        starts = torch.stack([head, first, tail], 1)
        whole = torch.stack([tail - head, self.ends[rows] - first], 1)
        room = longest - 1 - (whole.cumsum(1) - whole)
        kept = torch.minimum(whole, room.clamp(min=0))
        return starts, torch.cat([kept, torch.ones_like(first)[:, None]], 1)


@dataclass(frozen=True, slots=True)
class DualConfig:
    """Settings of training."""

    steps: int
    batch: int = 256
    """Questions per step; each brings one positive, `hard` hard and one random passage."""
    hard: int = 1
    learning_rate: float = 3e-5
    warmup: int = 100
    weight_decay: float = 0.01
    clip: float = 1.0
    scale: float = 20.0
    """Factor of inner products of unit vectors in the softmax."""
    teacher_weight: float = 0.0
    """Weight of the teacher's distribution in the loss; the rest is the positives'."""
    teacher_scale: float = 50.0
    longest: int = 192
    """Passages are truncated to this number of tokens in training."""
    pooling: str = "mean"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.steps < 1 or self.batch < 2:
            raise ConfigError("training needs at least one step of two questions")
        if not 0 <= self.teacher_weight <= 1:
            raise ConfigError(f"teacher_weight must be in [0, 1]: {self.teacher_weight}")


@dataclass(frozen=True, slots=True)
class Teacher:
    """Vectors of another encoder for the same questions and passages."""

    questions: Tensor
    passages: Tensor


@dataclass(frozen=True, slots=True)
class Data:
    """Questions with their positives and negatives, sampled by `weights`."""

    questions: TokenRows
    examples: Sequence[Example]
    weights: Sequence[float]

    def batches(self, batch: int, seed: int) -> Iterator[list[int]]:
        """Yield batches of question numbers, without end."""
        chance = random.Random(seed)
        numbers = range(len(self.examples))
        while True:
            yield chance.choices(numbers, self.weights, k=batch)


def train_distant(
    model: Bert,
    passages: TokenRows,
    data: Data,
    config: DualConfig,
    *,
    teacher: Teacher | None = None,
    log: Log = lambda _step, _loss: None,
) -> None:
    """Train one tower for questions and passages, in place."""
    chance = random.Random(config.seed)
    device = passages.ids.device

    def loss_of(sampled: list[int]) -> Tensor:
        examples = [data.examples[i] for i in sampled]
        rows = choose_rows(examples, config.hard, len(passages), chance)
        asked = torch.tensor(sampled, device=device)
        given = torch.tensor(rows, device=device)
        q = vectors_of(model, data.questions, asked, 64, config.pooling)
        p = vectors_of(model, passages, given, config.longest, config.pooling)
        target = torch.arange(len(sampled), device=device)
        excluded = torch.from_numpy(false_negatives(examples, rows)).to(device)
        loss = softmax_loss(config.scale * q @ p.T, target, excluded)
        if teacher is None:
            return loss
        theirs = teacher.questions[asked].float() @ teacher.passages[given].float().T
        taught = distillation_loss(config.scale * q @ p.T, config.teacher_scale * theirs)
        return (1 - config.teacher_weight) * loss + config.teacher_weight * taught

    _descend(model, loss_of, data, config, log)


def train_full(
    question_tower: Bert,
    passage_vectors: Tensor,
    data: Data,
    config: DualConfig,
    *,
    log: Log = lambda _step, _loss: None,
) -> None:
    """Train the question tower against all passages, whose vectors are frozen."""
    chance = random.Random(config.seed)
    device = passage_vectors.device

    def loss_of(sampled: list[int]) -> Tensor:
        examples = [data.examples[i] for i in sampled]
        asked = torch.tensor(sampled, device=device)
        q = vectors_of(question_tower, data.questions, asked, 64, config.pooling)
        scores = config.scale * (q.to(passage_vectors.dtype) @ passage_vectors.T).float()
        chosen = [chance.choice(chance.choice(example.positives)) for example in examples]
        pairs = [
            (i, row)
            for i, example in enumerate(examples)
            for row in example.holding
            if row != chosen[i]
        ]
        excluded = torch.zeros_like(scores, dtype=torch.bool)
        if pairs:
            at, rows = torch.tensor(pairs, device=device).T
            excluded[at, rows] = True
        return softmax_loss(scores, torch.tensor(chosen, device=device), excluded)

    _descend(question_tower, loss_of, data, config, log)


def choose_rows(
    examples: Sequence[Example], hard: int, n_passages: int, chance: random.Random
) -> list[int]:
    """Return the passages of a batch: each question's positive first, then hard, then random.

    The answer is sampled first and then a passage that contains it, so that an answer in few
    passages is learnt as often as one in many.
    """
    rows = [chance.choice(chance.choice(example.positives)) for example in examples]
    for _ in range(hard):
        rows += [chance.choice(example.hard) for example in examples]
    return rows + [_random_row(example, n_passages, chance) for example in examples]


def _random_row(example: Example, n_passages: int, chance: random.Random) -> int:
    row = chance.randrange(n_passages)
    return row if row not in example.holding else example.hard[0]


def false_negatives(examples: Sequence[Example], rows: Sequence[int]) -> NDArray[np.bool_]:
    """Return which passages of the batch contain a question's answer, except its own positive."""
    places: dict[int, list[int]] = {}
    for place, row in enumerate(rows):
        places.setdefault(row, []).append(place)
    table = np.zeros((len(examples), len(rows)), dtype=np.bool_)
    for i, example in enumerate(examples):
        for row in example.holding & places.keys():
            for place in places[row]:
                table[i, place] = place != i
    return table


def softmax_loss(scores: Tensor, target: Tensor, excluded: Tensor) -> Tensor:
    """Return the cross-entropy of each row's target, without the excluded columns."""
    return F.cross_entropy(scores.masked_fill(excluded, -torch.inf), target)


def distillation_loss(student: Tensor, teacher: Tensor) -> Tensor:
    """Return KL(teacher ‖ student) of the rows, on average."""
    return F.kl_div(
        F.log_softmax(student, dim=1),
        F.log_softmax(teacher, dim=1),
        log_target=True,
        reduction="batchmean",
    )


def vectors_of(model: Bert, texts: TokenRows, rows: Tensor, longest: int, pooling: str) -> Tensor:
    """Return unit vectors (B, d) of these rows, computed in 16 bits on a GPU."""
    return packed_vectors(model, *texts.packed(rows, longest), pooling)


def packed_vectors(model: Bert, ids: Tensor, lengths: Tensor, pooling: str = "mean") -> Tensor:
    """Return unit vectors (B, d) of concatenated texts, computed in 16 bits on a GPU."""
    with torch.autocast(ids.device.type, torch.bfloat16, enabled=ids.device.type == "cuda"):
        hidden = model.forward_packed(ids, lengths)
    return F.normalize(pool(hidden, lengths, pooling), dim=-1)


@torch.no_grad()
def encode_rows(
    model: Bert,
    texts: TokenRows,
    *,
    longest: int = 256,
    pooling: str = "mean",
    budget: int = 262_144,
) -> Tensor:
    """Return the vectors of all texts (R, d) in float16, `budget` tokens at a time."""
    model.eval()
    everything = torch.arange(len(texts), device=texts.ids.device)
    order = torch.argsort(texts.lengths(everything, longest), stable=True)
    ends = texts.lengths(order, longest).cumsum(0) // budget
    counts = torch.unique_consecutive(ends, return_counts=True)[1].tolist()
    out = torch.empty(
        len(texts), model.config.hidden_size, dtype=torch.float16, device=order.device
    )
    for rows in torch.split(order, counts):
        out[rows] = vectors_of(model, texts, rows, longest, pooling).half()
    return out


@torch.no_grad()
def nearest(questions: Tensor, passages: Tensor, k: int, chunk: int = 512) -> tuple[Tensor, Tensor]:
    """Return (rows, scores) of the k passages with the largest inner products, on the CPU."""
    parts = [
        (part.to(passages.dtype) @ passages.T).topk(min(k, len(passages)), dim=1)
        for part in torch.split(questions, chunk)
    ]
    rows = torch.cat([part.indices.int().cpu() for part in parts])
    return rows, torch.cat([part.values.float().cpu() for part in parts])


def _descend(
    model: Bert, loss_of: Callable[[list[int]], Tensor], data: Data, config: DualConfig, log: Log
) -> None:
    torch.manual_seed(config.seed)
    model.train()
    optimizer = torch.optim.AdamW(
        model.parameters(),
        lr=config.learning_rate,
        betas=(0.9, 0.98),
        weight_decay=config.weight_decay,
    )
    for step, sampled in zip(
        range(config.steps), data.batches(config.batch, config.seed), strict=False
    ):
        slope = min((step + 1) / config.warmup, 1 - step / config.steps)
        for group in optimizer.param_groups:
            group["lr"] = config.learning_rate * max(slope, 0.02)
        loss = loss_of(sampled)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch types it loosely
        torch.nn.utils.clip_grad_norm_(model.parameters(), config.clip)
        optimizer.step()
        if step % 100 == 0:
            log(step, loss.item())
    model.eval()
