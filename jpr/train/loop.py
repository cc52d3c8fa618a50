"""The training loop: all of it, and nothing of what is trained or on what.

A step's loss comes in parts, one per process and micro-batch, whose sum it is. All randomness
derives from the seed, the step and the part, so that a run that was killed and resumed ends with
the same weights as one that was not. Processes started by torchrun add up their gradients.
"""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from jpr.errors import DataError
from jpr.io.settings import below, not_one_of, reject
from jpr.train import state
from jpr.train.distributed import ALONE, World, autocast, prepare_gpu
from jpr.train.state import MovingAverage, RunProgress


@dataclass(frozen=True, slots=True)
class LoopConfig:
    """The optimization."""

    steps: int
    """Optimizer steps."""
    learning_rate: float = 5e-5
    """Learning rate of pretrained weights."""
    fresh_learning_rate: float = 3e-4
    """Learning rate of randomly initialized weights, such as a new decoder's."""
    warmup: int = 100
    """Steps of linear warm-up."""
    decay: str = "linear"
    """Schedule after the warm-up: `linear` or `cosine` to zero, or `flat`, the paper's."""
    weight_decay: float = 0.01
    """AdamW's, on matrices only."""
    max_grad_norm: float = 1.0
    """Gradients are clipped to this norm."""
    ema_decay: float = 0.0
    """Evaluate and keep an exponential moving average of the weights; 0 keeps the weights."""
    micro_batches: int = 1
    """Micro-batches per step and process (gradient accumulation), to save memory."""
    eval_every: int = 200
    """Steps between evaluations on development packs."""
    early_stopping: int = 0
    """Stop after this number of evaluations without improvement; 0 never stops early."""
    save_every: int = 500
    """Steps between saved states, from which `--resume` continues."""
    log_every: int = 20
    """Steps between lines of the log."""
    seed: int = 0
    """Seed of all randomness."""

    def __post_init__(self) -> None:
        counts = ("steps", "micro_batches", "eval_every", "save_every", "log_every")
        found = below(self, 1, *counts) + not_one_of(self, decay=("linear", "cosine", "flat"))
        if not 0 <= self.ema_decay < 1:
            found.append(f"ema_decay = {self.ema_decay}; give a number from 0 to below 1")
        if min(self.learning_rate, self.fresh_learning_rate) <= 0:
            found.append("learning_rate and fresh_learning_rate must be above 0")
        reject(found)

    def rate(self, step: int) -> float:
        """Return the factor of the learning rates at a step, counted from 0."""
        if step < self.warmup:
            return (step + 1) / self.warmup
        if self.decay == "flat":
            return 1.0
        done = (step - self.warmup) / max(self.steps - self.warmup, 1)
        return 1 - done if self.decay == "linear" else (1 + math.cos(math.pi * done)) / 2


@dataclass(frozen=True, slots=True)
class PartialLoss:
    """A part of a step's loss, and the number of tokens read for it."""

    loss: Tensor
    tokens: int


@dataclass(frozen=True, slots=True)
class DevScore:
    """How good the weights are: the value that decides, and details for the log."""

    value: float
    details: Mapping[str, float] = field(default_factory=dict)


LossOf = Callable[[int, int, int], PartialLoss]
"""The loss of (step from 0, number of the part, number of parts); parts are micro-batches."""
Report = Callable[[Mapping[str, object]], None]  # receives each line of the log


@dataclass(frozen=True, slots=True)
class Hooks:
    """Called while training; the model then holds the weights in question."""

    evaluate: Callable[[], DevScore] | None = None
    keep: Callable[[int], None] = lambda _step: None
    """Keep the weights of this step, the best so far."""
    report: Report = lambda _line: None


def train(
    model: nn.Module,
    loss_of: LossOf,
    config: LoopConfig,
    folder: Path,
    hooks: Hooks,
    *,
    fresh: tuple[str, ...] = (),
    world: World = ALONE,
) -> RunProgress:
    """Train in place, from the folder's state if there is one.

    Parameters whose names start with one of `fresh` have `fresh_learning_rate`.
    """
    run = _Run(model, config, folder, hooks, fresh, world)
    while run.progress.step < config.steps and not run.stopped:
        run.step(loss_of)
        if run.is_due(config.eval_every) and hooks.evaluate:
            run.evaluate(hooks.evaluate)
        if (run.is_due(config.save_every) or run.stopped) and world.is_first:
            state.write_state(folder, model, run.optimizer, run.average, run.progress)
    if not hooks.evaluate and world.is_first:
        model.eval()
        with run.average.instead_of(run.parameters):
            hooks.keep(run.progress.step)
    return run.progress


@dataclass
class _Run:
    model: nn.Module
    config: LoopConfig
    folder: Path
    hooks: Hooks
    fresh: tuple[str, ...]
    world: World

    def __post_init__(self) -> None:
        self.parameters = [weight for weight in self.model.parameters() if weight.requires_grad]
        self.device = self.parameters[0].device
        if self.device.type == "cuda":
            prepare_gpu()
        self.optimizer = _optimizer(self.model, self.config, self.fresh)
        self.average = MovingAverage(self.parameters, self.config.ema_decay)
        self.progress = RunProgress()
        if (self.folder / state.STATE).exists():
            self.progress = state.read_state(self.folder, self.model, self.optimizer, self.average)
        self.log_start = self.progress.step, time.monotonic()
        self.started = self.log_start[1] - self.progress.seconds
        self.loss, self.tokens = torch.zeros((), device=self.device), 0
        self.log = self.folder / "log.jsonl"
        if self.world.is_first:
            state.begin_log(self.log, self.progress.step)
        self.model.train()

    @property
    def stopped(self) -> bool:
        return 0 < self.config.early_stopping <= self.progress.waited

    def is_due(self, every: int) -> bool:
        return self.progress.step % every == 0 or self.progress.step == self.config.steps

    def step(self, loss_of: LossOf) -> None:
        """Add up the gradients of all parts and take one optimizer step."""
        step, world = self.progress.step, self.world
        parts = world.size * self.config.micro_batches
        for group in self.optimizer.param_groups:
            group["lr"] = group["rate"] * self.config.rate(step)
        self.optimizer.zero_grad()
        for micro in range(self.config.micro_batches):
            seeds = np.random.SeedSequence((self.config.seed, step, world.rank, micro))
            torch.manual_seed(int(seeds.generate_state(1, np.uint64)[0] >> np.uint64(1)))
            with autocast(self.device):
                part = loss_of(step, micro * world.size + world.rank, parts)
            if part.loss.requires_grad:  # false if no step of the part has a target
                part.loss.backward()  # type: ignore[no-untyped-call]  # torch types it loosely
            self.loss += part.loss.detach()
            self.tokens += part.tokens
        world.add_gradients(self.parameters)
        nn.utils.clip_grad_norm_(self.parameters, self.config.max_grad_norm)
        self.optimizer.step()
        self.average.update(self.parameters, step + 1)
        seconds = round(time.monotonic() - self.started, 3)
        self.progress = replace(self.progress, step=step + 1, seconds=seconds)
        if self.is_due(self.config.log_every):
            self._log_loss()

    def _log_loss(self) -> None:
        """Write the mean loss since the last time, over all processes."""
        step, now = self.progress.step, time.monotonic()
        before, then = self.log_start
        loss, tokens = (
            self.world.total(own, self.device) for own in (self.loss.item(), self.tokens)
        )
        if not math.isfinite(loss):
            raise DataError(f"the loss is {loss} at step {step}; lower the learning rate")
        self._write(
            loss=loss / (step - before),
            rate=self.optimizer.param_groups[0]["lr"],
            tokens_per_second=round(tokens / max(now - then, 1e-9)),
        )
        self.loss.zero_()
        self.tokens, self.log_start = 0, (step, now)

    def evaluate(self, evaluate: Callable[[], DevScore]) -> None:
        """Evaluate the weights, and keep them if they are the best so far."""
        started = time.monotonic()
        self.model.eval()
        with self.average.instead_of(self.parameters):
            score = evaluate() if self.world.is_first else DevScore(0.0)
            value = self.world.total(score.value, self.device)  # of the first alone
            better = value > self.progress.best
            if better and self.world.is_first:
                self.hooks.keep(self.progress.step)
        self.model.train()
        now = self.progress
        if better:
            self.progress = replace(now, best=value, best_step=now.step, waited=0)
        else:
            self.progress = replace(now, waited=now.waited + 1)
        self._write(score=value, best=self.progress.best, **score.details)
        self.log_start = self.log_start[0], self.log_start[1] + time.monotonic() - started

    def _write(self, **values: float) -> None:
        if self.world.is_first:
            line = {"step": self.progress.step, **values, "seconds": self.progress.seconds}
            state.append_to_log(self.log, line)
            self.hooks.report(line)


def _optimizer(
    model: nn.Module, config: LoopConfig, fresh: tuple[str, ...]
) -> torch.optim.Optimizer:
    """Return AdamW with a separate rate for fresh weights; vectors do not decay."""
    groups: dict[tuple[bool, bool], list[nn.Parameter]] = {}
    for name, weight in model.named_parameters():
        if weight.requires_grad:
            groups.setdefault((name.startswith(fresh), weight.ndim > 1), []).append(weight)
    settings = [
        {
            "params": weights,
            "rate": config.fresh_learning_rate if is_fresh else config.learning_rate,
            "weight_decay": config.weight_decay if decays else 0.0,
        }
        for (is_fresh, decays), weights in sorted(groups.items(), key=lambda item: item[0])
    ]
    fused = next(model.parameters()).device.type == "cuda"
    return torch.optim.AdamW(settings, lr=config.learning_rate, betas=(0.9, 0.98), fused=fused)
