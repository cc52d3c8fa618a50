"""`jpr train`, from a recipe to a folder."""

import json
from pathlib import Path

import pytest
import torch

from jpr.train.state import read_log
from tests.cli.running import fails
from tests.cli.running import jpr as run_jpr
from tests.train.tiny import write_encoder, write_invented
from tests.train.train_tiny import digest

RECIPE = """
k = 2
batch = 4
candidates = 4

[model]
weights = "encoder"
layers = 1
max_tokens = 128

[[data]]
pack = "pack"

[loop]
steps = 6
save_every = 2
eval_every = 3
log_every = 1

[dev]
packs = ["pack"]
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    torch.set_num_threads(1)
    write_encoder(tmp_path / "encoder")
    write_invented(tmp_path / "pack")
    (tmp_path / "tiny.toml").write_text(RECIPE)
    return tmp_path


def test_the_folder_has_weights_log_manifest_and_curve(home: Path) -> None:
    run_jpr("train", "tiny.toml", "--set", "loop.seed=3")
    out = home / "tiny"
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["settings"]["loop"]["seed"] == 3
    assert manifest["progress"]["step"] == 6
    assert set(manifest["inputs"]) == {"recipe", "pack"}
    assert (out / "curve.svg").read_bytes().startswith(b"<?xml")
    assert (out / "tokenizer.json").exists()
    losses = [line["step"] for line in read_log(out / "log.jsonl") if "loss" in line]
    assert losses == [1, 2, 3, 4, 5, 6]


def test_it_resumes_only_where_it_is_reported_to_and_with_the_same_recipe(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_jpr("train", "tiny.toml", "--out", "whole")
    message = fails(capsys, monkeypatch, "train", "tiny.toml", "--out", "whole")
    assert "whole: is not empty" in message
    message = fails(capsys, monkeypatch, "train", "tiny.toml", "--out", "new", "--resume")
    assert "new: holds no run to resume" in message
    other = ("--set", "k=3", "--resume")
    message = fails(capsys, monkeypatch, "train", "tiny.toml", "--out", "whole", *other)
    assert "whole: was started with a different recipe" in message
    before = digest(home / "whole" / "model.safetensors")
    run_jpr("train", "tiny.toml", "--out", "whole", "--resume")
    assert digest(home / "whole" / "model.safetensors") == before


def test_negatives_are_drawn_by_another_model(home: Path) -> None:
    run_jpr("train", "tiny.toml", "--out", "first", "--set", "objective.kind=independent")
    changes = (
        "--set",
        "data.scorer=first",
        "--set",
        "model.init=first",
        "--set",
        "model.weights=''",
    )
    run_jpr("train", "tiny.toml", "--out", "second", *changes)
    assert (home / "second" / "scores-0.npy").exists()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("data.pack=none", "none: holds no pack.json; is it a pack?"),
        ("data.scores=tiny.toml", "jpr: tiny.toml: "),
        ("model.weights=none", "none"),
        ("dev.packs=['none']", "none: holds no pack.json; is it a pack?"),
        ("batch=0", "tiny.toml: batch = 0; give at least 1"),
        ("loop.micro_batches=5", "a batch of 4 questions for 5 micro-batches"),
    ],
)
def test_bad_input_is_reported_in_one_sentence(
    home: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    change: str,
    problem: str,
) -> None:
    assert problem in fails(capsys, monkeypatch, "train", "tiny.toml", "--set", change)
