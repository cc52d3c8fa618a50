"""Train one tower for questions and passages, on groups of questions with a corpus each.

`recipes/encoder.py` runs it.
"""

import itertools
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from jpr.models.bert import Bert
from recipes.dpr_plus import DEVICE, say
from recipes.dual_encoder import (
    TokenRows,
    choose_rows,
    distillation_loss,
    false_negatives,
    packed_vectors,
    softmax_loss,
)
from recipes.keyword_queries import KeywordQueries
from recipes.mining import Example

WIKI, KEYWORDS = "wikipedia", "keywords"
HEAD, TAIL = (101,), 102
LONGEST, LONGEST_QUESTION = 192, 96
UNTITLED = 0.15
"""Share of the batches whose passages have no titles, as those of many users have none."""
_COMPILED, _TIMED = 10, 50
"""Steps after which kernels are compiled, and the pace is known: within the warm-up."""


@dataclass(frozen=True, slots=True)
class Training:
    """Settings of one training."""

    steps: int
    seconds: float
    """At most this long: a slower device trains fewer steps."""
    learning_rate: float
    shares: dict[str, float]
    """How often a batch is of each group."""
    hard: int = 2
    scale: float = 20.0
    teacher_weight: float = 0.7
    teacher_scale: float = 50.0
    batch: int = 256
    warmup: int = 100
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Teacher:
    """Vectors of a larger encoder: of a group's questions, and of passages from `first` on."""

    questions: Tensor
    passages: Tensor
    first: int


@dataclass(frozen=True, slots=True)
class Group:
    """Training questions whose passages are in one corpus, so that they share negatives."""

    rows: range
    questions: TokenRows
    examples: list[Example]
    weights: list[float]
    teacher: Teacher | None = None

    def batch(self, training: Training, chance: random.Random) -> "Batch":
        """Sample questions and their passages."""
        numbers = range(len(self.examples))
        n = min(training.batch, len(self.examples))
        sampled = list(dict.fromkeys(chance.choices(numbers, self.weights, k=n)))
        examples = [self.examples[i] for i in sampled]
        local = choose_rows(examples, training.hard, len(self.rows), chance)
        excluded = torch.from_numpy(false_negatives(examples, local))
        asked = torch.tensor(sampled, device=DEVICE)
        rows = torch.tensor(local, device=DEVICE) + self.rows.start
        ids, lengths = self.questions.packed(asked, LONGEST_QUESTION)
        scores = None
        if self.teacher is not None:
            theirs = self.teacher.passages[rows - self.teacher.first].float()
            scores = self.teacher.questions[asked].float() @ theirs.T
        return Batch(ids, lengths, rows, excluded.to(DEVICE), scores)


@dataclass(frozen=True, slots=True)
class Batch:
    """Questions, their positives in the same order and then negatives."""

    ids: Tensor
    lengths: Tensor
    rows: Tensor
    excluded: Tensor
    teacher_scores: Tensor | None


def keyword_batch(queries: KeywordQueries, training: Training, chance: random.Random) -> Batch:
    """Sample passages with queries made of their own words; their neighbors are hard negatives."""
    n = len(queries)
    own = chance.sample(range(1, n - 1), training.batch)
    near = [row + chance.choice((-1, 1)) for row in own]
    far = [chance.randrange(n) for _ in own]
    asked = TokenRows.of([queries.sample(row, chance) for row in own], HEAD, TAIL).to(DEVICE)
    everything = torch.arange(len(own), device=DEVICE)
    ids, lengths = asked.packed(everything, LONGEST_QUESTION)
    places: dict[int, list[int]] = {}
    rows = [*own, *near, *far]
    for place, row in enumerate(rows):
        places.setdefault(row, []).append(place)
    excluded = torch.zeros(len(own), len(rows), dtype=torch.bool)
    for i, row in enumerate(own):  # the passage itself is no negative where it appears again
        for place in places[row]:
            excluded[i, place] = place != i
    return Batch(ids, lengths, torch.tensor(rows, device=DEVICE), excluded.to(DEVICE), None)


def schedule(name: str, training: Training) -> Iterator[tuple[int, float]]:
    """Yield each step with its share of the learning rate; fewer steps where they take long."""
    begin, warm, steps = time.perf_counter(), 0.0, training.steps
    for step in itertools.count():
        if step == _COMPILED:
            warm = time.perf_counter()
        if step == _TIMED:
            pace = (time.perf_counter() - warm) / (_TIMED - _COMPILED)
            left = training.seconds - (time.perf_counter() - begin)
            steps = min(steps, step + int(left / pace))
            say(f"{name}: {steps} steps of {pace:.3f} s")
        if step >= steps:
            return
        yield step, max(min((step + 1) / training.warmup, 1 - step / steps), 0.02)


def train(
    name: str,
    model: Bert,
    passages: tuple[TokenRows, TokenRows],
    groups: dict[str, Group],
    queries: KeywordQueries,
    training: Training,
) -> None:
    """Train one tower for questions and passages, in place."""
    torch.manual_seed(training.seed)
    chance = random.Random(training.seed)
    model.train()
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=training.learning_rate, betas=(0.9, 0.98), weight_decay=0.01
    )
    names, shares = zip(*training.shares.items(), strict=True)
    recent: dict[str, list[float]] = {}
    for step, slope in schedule(name, training):
        for settings in optimizer.param_groups:
            settings["lr"] = training.learning_rate * slope
        (group,) = chance.choices(names, shares)
        if group == KEYWORDS:
            batch = keyword_batch(queries, training, chance)
        else:
            batch = groups[group].batch(training, chance)
        loss = loss_of(model, passages[chance.random() < UNTITLED], batch, training)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch types it loosely
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 10 == 0:
            recent.setdefault(group if group in (WIKI, KEYWORDS) else "others", []).append(
                loss.item()
            )
        if step % 200 == 199:
            shown = {key: round(float(np.mean(found)), 3) for key, found in recent.items()}
            say(name, step + 1, shown)
            recent.clear()
    model.eval()


def loss_of(model: Bert, passages: TokenRows, batch: Batch, training: Training) -> Tensor:
    """Return the cross-entropy of the positives, mixed with the teacher's distribution."""
    n = len(batch.lengths)
    ids, lengths = passages.packed(batch.rows, LONGEST)
    q = packed_vectors(model, batch.ids, batch.lengths)
    scores = training.scale * q @ packed_vectors(model, ids, lengths).T
    loss = softmax_loss(scores, torch.arange(n, device=DEVICE), batch.excluded)
    if batch.teacher_scores is None or not training.teacher_weight:
        return loss
    taught = distillation_loss(scores, training.teacher_scale * batch.teacher_scores)
    return (1 - training.teacher_weight) * loss + training.teacher_weight * taught
