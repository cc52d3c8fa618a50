"""The training loop: all of it, and nothing of what is trained or on what.

A step's loss comes in parts, one per process and micro-batch, whose sum it is. Everything random is
derived from the seed, the step and the part, so that a run which was killed and resumed ends with
the same weights as one that was not. Processes started by torchrun add up their gradients.

    FOLDER/log.jsonl           a line now and then: step, loss, rate, tokens_per_second, seconds …
    FOLDER/state.safetensors   what it takes to go on: weights, optimizer, average, progress
"""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from jpr.errors import DataError
from jpr.io.settings import below, not_one_of, reject
from jpr.train.average import Average
from jpr.train.distributed import World, suit_new_shapes
from jpr.train.state import Log, Progress, read_state, write_state

DECAYS = ("linear", "cosine", "flat")


@dataclass(frozen=True, slots=True)
class LoopConfig:
    """How weights are changed, step by step."""

    steps: int
    """How often the weights are changed."""
    learning_rate: float = 5e-5
    """The rate of weights that were trained before."""
    fresh_learning_rate: float = 3e-4
    """The rate of weights that begin at random, such as a new decoder's."""
    warmup: int = 100
    """Steps in which the rate grows from nothing to its full height."""
    decay: str = "linear"
    """What follows: `linear` or `cosine` down to nothing, or `flat`, which is the paper's."""
    weight_decay: float = 0.01
    """AdamW's, on matrices only."""
    clip: float = 1.0
    """The longest gradient; longer ones are shortened."""
    average: float = 0.0
    """Evaluate and keep a moving average of the weights with this memory; 0 keeps themselves."""
    micros: int = 1
    """Micro-batches per step and process, one after the other, to save memory."""
    eval_every: int = 200
    """Steps from one evaluation on development packs to the next."""
    patience: int = 0
    """Stop after so many evaluations without a better one; 0 never stops early."""
    save_every: int = 500
    """Steps from one saved state, which `--resume` goes on with, to the next."""
    log_every: int = 20
    """Steps from one line of the log to the next."""
    seed: int = 0
    """What all chance comes from."""

    def __post_init__(self) -> None:
        """Check the values."""
        found = below(self, 1, "steps", "micros", "eval_every", "save_every", "log_every")
        found += not_one_of(self, decay=DECAYS)
        if not 0 <= self.average < 1:
            found.append(f"average = {self.average}; give a number from 0 to below 1")
        if min(self.learning_rate, self.fresh_learning_rate) <= 0:
            found.append("learning_rate and fresh_learning_rate must be above 0")
        reject(found)

    def slope(self, step: int) -> float:
        """Return the share of the full rate at a step, counted from 0."""
        if step < self.warmup:
            return (step + 1) / self.warmup
        if self.decay == "flat":
            return 1.0
        done = (step - self.warmup) / max(self.steps - self.warmup, 1)
        return 1 - done if self.decay == "linear" else (1 + math.cos(math.pi * done)) / 2


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a step's loss, and how many tokens were read for it."""

    loss: Tensor
    tokens: int


@dataclass(frozen=True, slots=True)
class Score:
    """How good the weights are: what decides, and what there is to tell."""

    value: float
    told: Mapping[str, float] = field(default_factory=dict)


LossOf = Callable[[int, int, int], Part]
"""The loss of (step from 0, rank of the process, number of the micro-batch)."""


@dataclass(frozen=True, slots=True)
class Hooks:
    """What others do while the loop goes on; the model holds the weights in question."""

    evaluate: Callable[[], Score] | None = None
    keep: Callable[[int], None] = lambda _step: None
    """Keep the weights of this step, the best so far."""
    tell: Callable[[Mapping[str, object]], None] = lambda _line: None
    """Hear each line of the log."""


def train(
    model: nn.Module,
    loss_of: LossOf,
    config: LoopConfig,
    folder: Path,
    hooks: Hooks,
    *,
    fresh: tuple[str, ...] = (),
    world: World | None = None,
) -> Progress:
    """Train in place, from where the folder's state says; `fresh` begin names of new weights."""
    run = _Run(model, loss_of, config, folder, hooks, fresh, world or World())
    while run.progress.step < config.steps and not run.stopped:
        run.step()
        if run.is_due(config.eval_every) and hooks.evaluate:
            run.evaluate()
        if run.is_due(config.save_every) or run.stopped:
            run.save()
    if not hooks.evaluate:
        run.keep()
    return run.progress


class _Run:
    """A model on its way through the steps."""

    def __init__(
        self,
        model: nn.Module,
        loss_of: LossOf,
        config: LoopConfig,
        folder: Path,
        hooks: Hooks,
        fresh: tuple[str, ...],
        world: World,
    ) -> None:
        self.model, self.loss_of, self.config, self.folder = model, loss_of, config, folder
        self.hooks, self.world = hooks, world
        self.parameters = [weight for weight in model.parameters() if weight.requires_grad]
        self.device = self.parameters[0].device
        if self.device.type == "cuda":
            suit_new_shapes()
        self.optimizer = _optimizer(model, config, fresh)
        self.average = Average(self.parameters, config.average)
        self.progress = Progress()
        self.began = time.monotonic()
        self.lost = torch.zeros((), device=self.device)
        self.tokens, self.since = 0, (0, self.began)
        if (folder / "state.safetensors").exists():
            self.progress = read_state(folder, model, self.optimizer, self.average)
            self.began -= self.progress.seconds
            self.since = self.progress.step, time.monotonic()
        self.log = Log(folder / "log.jsonl", self.progress.step) if world.is_first else None
        model.train()

    @property
    def stopped(self) -> bool:
        return 0 < self.config.patience <= self.progress.waited

    def is_due(self, every: int) -> bool:
        return self.progress.step % every == 0 or self.progress.step == self.config.steps

    def step(self) -> None:
        """Add up the gradients of all parts and go one step down."""
        step = self.progress.step
        for group in self.optimizer.param_groups:
            group["lr"] = group["rate"] * self.config.slope(step)
        self.optimizer.zero_grad()
        for micro in range(self.config.micros):
            torch.manual_seed(_seed(self.config.seed, step, self.world.rank, micro))
            cuda = self.device.type == "cuda"
            with torch.autocast(self.device.type, torch.bfloat16, enabled=cuda):
                part = self.loss_of(step, self.world.rank, micro)
            if part.loss.requires_grad:  # not so where the part has no target at all
                part.loss.backward()  # type: ignore[no-untyped-call]  # torch types it loosely
            self.lost += part.loss.detach()
            self.tokens += part.tokens
        self.world.add_gradients(self.parameters)
        nn.utils.clip_grad_norm_(self.parameters, self.config.clip)
        self.optimizer.step()
        self.average.update(self.parameters)
        self.progress = self.progress.after(step + 1, time.monotonic() - self.began)
        if self.is_due(self.config.log_every):
            self._tell_loss()

    def _tell_loss(self) -> None:
        """Write the mean loss since the last time, all processes together."""
        step, now = self.progress.step, time.monotonic()
        before, then = self.since
        lost, tokens = self.world.sums(self.lost.double().item(), float(self.tokens), self.device)
        if not math.isfinite(lost):
            raise DataError(f"the loss is no number at step {step}; lower the learning rate")
        self._tell(
            loss=lost / (step - before),
            rate=self.optimizer.param_groups[0]["lr"],
            tokens_per_second=round(tokens / max(now - then, 1e-9)),
        )
        self.lost.zero_()
        self.tokens, self.since = 0, (step, now)

    def evaluate(self) -> None:
        """Let the weights be judged, and kept where they are the best so far."""
        assert self.hooks.evaluate is not None
        started = time.monotonic()
        self.model.eval()
        with self.average.instead_of(self.parameters):
            score = self.hooks.evaluate() if self.world.is_first else Score(0.0)
            value = self.world.first_says(score.value, self.device)
            better = value > self.progress.best
            if better and self.world.is_first:
                self.hooks.keep(self.progress.step)
        self.model.train()
        self.progress = self.progress.judged(value, better)
        self._tell(score=value, best=self.progress.best, **score.told)
        self.since = self.since[0], self.since[1] + time.monotonic() - started

    def keep(self) -> None:
        """Keep the last weights, where nobody judges them."""
        self.model.eval()
        with self.average.instead_of(self.parameters):
            if self.world.is_first:
                self.hooks.keep(self.progress.step)

    def save(self) -> None:
        if self.world.is_first:
            write_state(self.folder, self.model, self.optimizer, self.average, self.progress)

    def _tell(self, **values: float) -> None:
        if self.log is not None:
            line = {"step": self.progress.step, **values, "seconds": self.progress.seconds}
            self.log.write(line)
            self.hooks.tell(line)


def _optimizer(
    model: nn.Module, config: LoopConfig, fresh: tuple[str, ...]
) -> torch.optim.Optimizer:
    """Return AdamW with a rate of their own for fresh weights; vectors do not decay."""
    groups: dict[tuple[bool, bool], list[nn.Parameter]] = {}
    for name, weight in model.named_parameters():
        if weight.requires_grad:
            is_fresh = bool(fresh) and name.startswith(fresh)
            groups.setdefault((is_fresh, weight.ndim > 1), []).append(weight)
    listed = [
        {
            "params": weights,
            "rate": config.fresh_learning_rate if is_fresh else config.learning_rate,
            "weight_decay": config.weight_decay if decays else 0.0,
        }
        for (is_fresh, decays), weights in sorted(groups.items(), key=lambda item: item[0])
    ]
    fused = next(model.parameters()).device.type == "cuda"
    return torch.optim.AdamW(listed, lr=config.learning_rate, betas=(0.9, 0.98), fused=fused)


def _seed(*parts: int) -> int:
    return int(np.random.SeedSequence(parts).generate_state(1, np.uint64)[0] >> np.uint64(1))
