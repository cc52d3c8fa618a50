import json
import runpy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(autouse=True)
def _as_scripts_see_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    torch.set_num_threads(1)


def test_training_is_timed_for_every_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "train.json"
    monkeypatch.setattr("sys.argv", ["train.py", "--tiny", "--out", str(out)])
    runpy.run_path(str(BENCHMARKS / "train.py"), run_name="__main__")
    report = json.loads(out.read_text(encoding="utf-8"))
    measured = [(row["model"], row["lengths"], row["checkpointing"]) for row in report["rows"]]
    assert len(measured) == 16
    assert {measured.count(one) for one in measured if one[0].startswith("T5")} == {3}
    assert all(row["tokens/s"] > 0 and row["share"] > 0 for row in report["rows"])
    assert len(capsys.readouterr().out.splitlines()) == 2 + len(measured)


def test_operations_are_those_that_torch_counts(tmp_path: Path) -> None:
    """Where nothing is padded; that of queries with keys of the head is left out."""
    made: dict[str, Any] = runpy.run_path(str(BENCHMARKS / "train_systems.py"))
    task = made["Task"](made["TINY"], "T5, tiny", made["FULL"], tmp_path / "pack")
    theirs = made["Fusion"](task.shape, "eager")
    with FlopCounterMode(display=False) as counter:
        made["fusion_loss"](theirs, task)(0, 0, 0).loss.backward()
    questions = task.config.batch
    counted = made["operations"](made["joint_model"](task.shape), task.lengths(0), questions)
    assert counted == pytest.approx(counter.get_total_flops(), rel=1e-3)


def test_writing_is_timed_for_every_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "read.json"
    options = ["--tiny", "--repetitions", "1", "--out", str(out)]
    monkeypatch.setattr("sys.argv", ["read.py", *options])
    runpy.run_path(str(BENCHMARKS / "read.py"), run_name="__main__")
    report = json.loads(out.read_text(encoding="utf-8"))
    assert [row["grounded"] for row in report["rows"]] == [False, True] * 6
    assert len(report["ratios"]) == 3
    assert all(row["ms"] > 0 for row in report["rows"])


def test_the_service_is_timed_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "serve.json"
    monkeypatch.setattr("sys.argv", ["serve.py", "--tiny", "--out", str(out)])
    runpy.run_path(str(BENCHMARKS / "serve.py"), run_name="__main__")
    report = json.loads(out.read_text(encoding="utf-8"))
    measured = [(row["batch"], row["clients"]) for row in report["rows"]]
    assert measured == [(batch, clients) for batch in (8, 1) for clients in (1, 8, 64)]
    overload = report["overload"]
    assert overload["answered"] == overload["sent"] == overload["served"] + overload["rejected"]
    assert overload["with retry-after"] == overload["rejected"] > 0
    assert overload["retrying clients served"] == overload["clients"] == 16
    assert report["memory"]["requests"] == 160
    assert len(capsys.readouterr().out.splitlines()) == 1 + len(measured) + 3
