"""Speed of training joint rerankers, against transformers' T5 and against matrix products.

python benchmarks/train.py [--tiny] [--alone] [--commit NAME] [--out FILE.json]

Everything goes through `jpr.train.loop.train`: bfloat16 by autocast, gradients clipped, AdamW
(fused). The objective is the joint one, with prefixes by the dynamic oracle, k = 5, dropout 0.1, 25
of each question's 100 candidates. Weights are random and the pack is invented: speed depends on
neither. Question and passage have 256 tokens, or are as long as real ones: lognormal around 150, at
most 256. Systems, all on the same tokens in the same order:

- jpr: joint models of the shape of T5-base (Fusion in Decoder), and of BERTs as we train them, 6 or
  12 layers 384 wide with a decoder of 2 layers over one vector per passage;
- transformers: T5-base as one would write it down, passages padded to the longest, their vectors
  end to end as the decoder's memory, a pointer of the same form, the same loss. Before anything is
  timed, a tiny model of each kind with the same weights must have the same loss.

Checkpointing, where it is on, is of the encoder's blocks. Each figure is over 8 steps after 3 that
do not count, from a device that is idle to a device that is idle. Tokens are those of the texts,
without padding. Work is counted as 6 operations for each weight that a token meets in a matrix
product (2 forward, 4 backward) and 12 · width for each pair of tokens in attention, per layer:
nothing for padding, nor for what checkpointing computes again. The share is that work per second
over what products of square matrices reach in the same run.
"""

import argparse
import gc
import json
import platform
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
import transformers
from ceiling import ceiling, settle
from lines import line
from torch import Tensor, nn
from train_systems import (
    FULL,
    LARGE,
    REAL,
    TINY,
    Fusion,
    Size,
    Task,
    fusion_loss,
    joint_loss,
    joint_model,
    operations,
    with_weights_of,
)

from jpr.models.config import T5Config
from jpr.train.loop import Hooks, LossOf, PartialLoss, train

ATTENTIONS = ("eager", "sdpa")
Row = dict[str, object]
System = Callable[[], tuple[nn.Module, LossOf]]


class Enough(Exception):
    """All steps that count are done."""


class Watch:
    """A loss that notes when the steps that count begin, and ends the run after the last."""

    def __init__(self, loss_of: LossOf, size: Size) -> None:
        """Take the loss to ask for."""
        self._loss_of, self._size = loss_of, size
        self._loss: Tensor = torch.zeros(())
        self._start, self.tokens, self.seconds, self.peak = 0.0, 0, 0.0, 0

    def __call__(self, step: int, part: int, parts: int) -> PartialLoss:
        """Return the loss of a step."""
        done = step - self._size.warm_up
        if done == 0:
            self._begin()
        if done == self._size.steps:
            self._end()
        loss = self._loss_of(step, part, parts)
        self.tokens += loss.tokens * (done >= 0)
        self._loss = loss.loss.detach()
        return loss

    def _begin(self) -> None:
        settle(self._size.device)
        if self._size.device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        self._start = time.perf_counter()

    def _end(self) -> None:
        settle(self._size.device)
        self.seconds = time.perf_counter() - self._start
        if self._size.device == "cuda":
            self.peak = torch.cuda.max_memory_allocated()
        if not self._loss.isfinite():
            raise SystemExit(f"the loss is {self._loss.item()}; such steps measure nothing")
        raise Enough


def measured(made: System, task: Task, work: float, most: float) -> Row:
    """Train for as many steps as it takes, and return how fast it went."""
    if task.size.device == "cuda":
        gc.collect()  # what the system before has left, whose run ended in an exception
        torch.cuda.empty_cache()
    try:
        model, loss_of = made()
        watch = Watch(loss_of, task.size)
        with suppress(Enough), TemporaryDirectory() as out:
            train(model, watch, task.config.loop, Path(out), Hooks())
    except torch.OutOfMemoryError:
        return {"tokens/s": "out of memory"}
    return {
        "tokens/s": watch.tokens / watch.seconds,
        "TFLOP/s": work / watch.seconds / 1e12,
        "share": work / watch.seconds / most,
        "ms a step": watch.seconds / task.size.steps * 1e3,
        "peak GB": watch.peak / 1e9,
    }


def systems(task: Task, checkpointing: bool, peers: tuple[str, ...]) -> dict[str, System]:
    """Return what there is of a shape, to be made when its turn has come."""

    def ours() -> tuple[nn.Module, LossOf]:
        with torch.device(task.size.device):
            model = joint_model(task.shape)
        model.encoder.checkpointing = checkpointing
        return model, joint_loss(model, task)

    def theirs(shape: T5Config, attention: str) -> tuple[nn.Module, LossOf]:
        with torch.device(task.size.device):
            model = Fusion(shape, attention).to(task.size.device)
        if checkpointing:
            model.t5.encoder.gradient_checkpointing_enable({"use_reentrant": False})
        return model, fusion_loss(model, task)

    found: dict[str, System] = {"jpr": ours}
    if isinstance(task.shape, T5Config):
        for attention in peers:
            found[f"transformers, {attention}"] = partial(theirs, task.shape, attention)
    return found


def rows(size: Size, home: Path, most: float, peers: tuple[str, ...]) -> Iterator[Row]:
    """Measure everything."""
    for name in size.shapes:
        for lengths in (REAL, FULL):
            task = Task(size, name, lengths, home / "pack")
            counted = [task.lengths(size.warm_up + step) for step in range(size.steps)]
            with torch.device("meta"):
                model = joint_model(task.shape)
            work = sum(operations(model, each, task.config.batch) for each in counted)
            given: Row = {
                "model": name,
                "lengths": lengths,
                "tokens a passage": float(np.concatenate(counted).mean()),
                "questions a step": task.config.batch,
            }
            for checkpointing in (False, True):
                for system, made in systems(task, checkpointing, peers).items():
                    what: Row = {"system": system, "checkpointing": checkpointing}
                    yield given | what | measured(made, task, work, most)


def check_same(device: str, home: Path) -> None:
    """Refuse to compare models that have not the same loss with the same weights."""
    size = replace(TINY, device=device)
    name, (shape, _) = next(iter(size.shapes.items()))
    assert isinstance(shape, T5Config)
    task = Task(size, name, REAL, home / "pack")
    with torch.device(device):
        ours = joint_model(shape).eval()
    nn.init.constant_(ours.get_parameter("head.prior"), 0.5)  # which begins at 0
    for attention in ATTENTIONS:
        theirs = with_weights_of(ours, shape, attention).eval()
        with torch.no_grad():
            mine = joint_loss(ours, task)(0, 0, 1).loss
            other = fusion_loss(theirs, task)(0, 0, 1).loss
        if not torch.allclose(mine, other, rtol=1e-4):
            raise SystemExit(f"jpr's loss is {mine}, that of transformers, {attention}, {other}")


COLUMNS = {
    "model": (13, ""),
    "lengths": (7, ""),
    "system": (19, ""),
    "checkpointing": (13, ""),
    "tokens/s": (13, ",.0f"),
    "TFLOP/s": (7, ".1f"),
    "share": (6, ".1%"),
    "ms a step": (9, ".1f"),
    "peak GB": (7, ".1f"),
}
"""How wide the columns of the table are, and how numbers are written."""


def about(size: Size, most: float) -> Row:
    """Return what the numbers depend on."""
    return {
        "command": " ".join(["python", *sys.argv]),
        "device": torch.cuda.get_device_name() if size.device == "cuda" else platform.machine(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "steps": size.steps,
        "steps before": size.warm_up,
        "passages a question": size.candidates,
        "TFLOP/s of matrix products": most / 1e12,
    }


def main() -> None:
    """Measure, print, and keep the numbers."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--tiny", action="store_true", help="tiny models on the CPU, to try")
    parser.add_argument("--alone", action="store_true", help="time jpr alone, to compare commits")
    parser.add_argument("--commit", default="", help="to be noted")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    size = TINY if options.tiny else LARGE
    torch.manual_seed(0)
    start, found = time.perf_counter(), list[Row]()
    most = ceiling(size.device, size.product)
    report = about(size, most) | {"commit": options.commit}
    print(f"products of square matrices: {most / 1e12:.3g} TFLOP/s")
    print(line(COLUMNS, {}))
    with TemporaryDirectory() as folder:
        check_same(size.device, Path(folder))
        for row in rows(size, Path(folder), most, () if options.alone else ATTENTIONS):
            found.append(row)
            print(line(COLUMNS, row), flush=True)
            report |= {"seconds": time.perf_counter() - start, "rows": found}
            if options.out:  # after every row, so that a run cut short has shown what it measured
                options.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
