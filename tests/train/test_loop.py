import math
import signal
import socket
import time
from collections.abc import Sequence
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from jpr.errors import ConfigError, DataError, FormatError
from jpr.train.joint import train_joint
from jpr.train.loop import DevScore, Hooks, LoopConfig, PartialLoss, train
from jpr.train.state import read_log
from tests.train.tiny import losses
from tests.train.train_tiny import digest, prepare, recipe, run

PROCESSES = get_context("forkserver")
PROCESSES.set_forkserver_preload(["tests.train.train_tiny", "torch._dynamo"])  # once for all
RATES = ["loop.learning_rate=1e-4", "loop.fresh_learning_rate=1e-4"]
GENTLE = ["model.dropout=0.0", "loop.steps=10", *RATES]
"""Adam makes much of rounding where a gradient is almost nothing: as much as the rate."""


def start(folder: Path, changes: Sequence[str] = (), **environment: str) -> BaseProcess:
    process = PROCESSES.Process(target=run, args=(folder, changes, environment))
    process.start()
    return process


def ended(process: BaseProcess) -> int | None:
    process.join(timeout=60)
    return process.exitcode


def assert_same_weights(folder: Path, other: Path) -> None:
    """Compare all weights, but for biases of keys: no gradient moves them, only rounding does."""
    found, expected = (load_file(one / "model.safetensors") for one in (folder, other))
    assert found.keys() == expected.keys()
    for name, weight in expected.items():
        if not name.endswith("qkv.bias"):
            torch.testing.assert_close(found[name], weight, rtol=0, atol=1e-6, msg=name)


def wait_for_step(folder: Path, step: int, process: BaseProcess) -> None:
    """Wait until the log has a step."""
    while process.exitcode is None:
        lines = read_log(folder / "out" / "log.jsonl")
        if lines and int(str(lines[-1]["step"])) >= step:
            return
        time.sleep(0.002)


def test_a_killed_run_ends_as_one_that_was_not(tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    prepare(whole)
    prepare(broken)
    torch.set_num_threads(1)
    train_joint(recipe(whole), whole / "out")
    kills = 0
    for step in (3, 17, 29):
        process = start(broken)
        wait_for_step(broken, step, process)
        process.kill()
        kills += ended(process) == -signal.SIGKILL
    assert kills >= 2  # the last steps may be over before the signal comes
    assert ended(start(broken)) == 0
    for file in ("model.safetensors", "state.safetensors"):
        assert digest(broken / "out" / file) == digest(whole / "out" / file)
    steps = [int(str(line["step"])) for line in read_log(broken / "out" / "log.jsonl")]
    assert steps == sorted(steps)
    assert steps[-1] == 40


def test_two_processes_are_one_with_the_whole_batch(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    prepare(one)
    prepare(two)
    changes = [*GENTLE, "loop.micro_batches=1"]
    train_joint(recipe(one, changes), one / "out")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    env = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    processes = [start(two, changes, RANK=str(rank), **env) for rank in range(2)]
    assert [ended(process) for process in processes] == [0, 0]
    assert_same_weights(two / "out", one / "out")
    assert losses(one / "out") == pytest.approx(losses(two / "out"), abs=1e-5)


def test_micro_batches_change_nothing(tmp_path: Path) -> None:
    prepare(tmp_path)
    for micros in (1, 4):
        changes = [*GENTLE, f"loop.micro_batches={micros}"]
        train_joint(recipe(tmp_path, changes), tmp_path / f"out{micros}")
    assert_same_weights(tmp_path / "out4", tmp_path / "out1")


def test_the_rate_rises_and_falls() -> None:
    linear = LoopConfig(steps=110, warmup=10)
    assert [linear.rate(step) for step in (0, 4, 9, 10, 60)] == pytest.approx(
        [0.1, 0.5, 1.0, 1.0, 0.5]
    )
    cosine = LoopConfig(steps=110, warmup=10, decay="cosine")
    assert cosine.rate(35) == pytest.approx((1 + math.cos(math.pi / 4)) / 2)
    assert LoopConfig(steps=110, warmup=10, decay="flat").rate(109) == 1


class Line(nn.Module):
    """One weight, to be brought to a number."""

    def __init__(self) -> None:
        super().__init__()
        self.old = nn.Linear(1, 1)
        self.fresh = nn.Linear(1, 1)

    def part(self, step: int, part: int, parts: int) -> PartialLoss:
        target = torch.ones(1, 1)
        lost = (self.old(target) - 3) ** 2 + (self.fresh(target) - 3) ** 2
        return PartialLoss(lost.sum(), 1)


def config(steps: int, **changes: float) -> LoopConfig:
    settings = {"learning_rate": 1e-3, "fresh_learning_rate": 0.1, "warmup": 1, **changes}
    return LoopConfig(steps=steps, eval_every=1, **settings)  # type: ignore[arg-type]  # numbers


def test_fresh_weights_have_a_rate_of_their_own(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Line()
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    train(model, model.part, config(1), tmp_path, Hooks(), fresh=("fresh.",))
    moved = {n: float((w - before[n]).detach().abs()) for n, w in model.named_parameters()}
    assert moved["old.bias"] == pytest.approx(1e-3, rel=1e-3)
    assert moved["fresh.bias"] == pytest.approx(0.1, rel=1e-3)


def test_it_stops_when_nothing_gets_better_and_keeps_the_best(tmp_path: Path) -> None:
    scores = iter([0.1, 0.5, 0.4, 0.5, 0.3])
    kept: list[int] = []
    model = Line()
    hooks = Hooks(lambda: DevScore(next(scores)), kept.append)
    progress = train(model, model.part, config(100, early_stopping=2), tmp_path, hooks)
    assert (progress.step, progress.best_step, progress.best) == (4, 2, 0.5)
    assert kept == [1, 2]


def test_what_is_judged_is_the_average(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, seen = Line(), []

    def look() -> DevScore:
        seen.append(float(model.fresh.bias.detach()))
        return DevScore(0.0)

    train(model, model.part, config(30, ema_decay=0.99), tmp_path, Hooks(look), fresh=("fresh.",))
    assert abs(seen[-1] - float(model.fresh.bias.detach())) > 1e-3
    assert seen == sorted(seen)  # the average follows


def test_a_loss_that_is_no_number_ends_it(tmp_path: Path) -> None:
    model = Line()

    def broken(step: int, part: int, parts: int) -> PartialLoss:
        return PartialLoss(model.part(step, part, parts).loss * math.nan, 1)

    with pytest.raises(DataError, match="step 20"):
        train(model, broken, config(40), tmp_path, Hooks())


def test_settings_that_have_no_meaning_are_refused(tmp_path: Path) -> None:
    model = Line()
    with pytest.raises(ConfigError, match=r"steps = 0; .*ema_decay = 2"):
        train(model, model.part, config(0, ema_decay=2), tmp_path, Hooks())


def test_a_state_of_another_model_is_refused(tmp_path: Path) -> None:
    model = Line()
    train(model, model.part, config(2), tmp_path, Hooks())
    with pytest.raises(FormatError, match="not a state of this run"):
        train(nn.Linear(2, 2), model.part, config(4), tmp_path, Hooks())
    (tmp_path / "state.safetensors").write_bytes(b"cut off")
    with pytest.raises(FormatError, match="not a state of this run"):
        train(model, model.part, config(4), tmp_path, Hooks())
