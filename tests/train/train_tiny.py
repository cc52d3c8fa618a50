"""Train a tiny joint model, in processes that tests kill or run side by side."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import load_file

from jpr.io.settings import apply_changes, parse_table
from jpr.train.distributed import World
from jpr.train.joint import train_joint
from jpr.train.recipe import JointTraining
from tests.train.tiny import write_encoder, write_invented


def prepare(folder: Path) -> None:
    """Write what there is to train and to train on."""
    write_encoder(folder / "encoder")
    write_invented(folder / "pack", n=10)
    write_invented(folder / "other", n=7, candidates=4, seed=1)


def recipe(folder: Path, changes: Sequence[str] = ()) -> JointTraining:
    """Return a recipe with every part of the loop in use."""
    given: dict[str, object] = {
        "k": 3,
        "batch": 8,
        "candidates": 5,
        "model": {
            "weights": str(folder / "encoder"),
            "dropout": 0.1,
            "layers": 1,
            "max_tokens": 128,
        },
        "data": [
            {"pack": str(folder / "pack"), "weight": 3.0},
            {"pack": str(folder / "other")},
        ],
        "dev": {"packs": [str(folder / "pack")]},
        "loop": {
            "steps": 40,
            "learning_rate": 3e-3,
            "fresh_learning_rate": 3e-3,
            "warmup": 5,
            "ema_decay": 0.9,
            "micro_batches": 2,
            "eval_every": 15,
            "save_every": 7,
            "log_every": 1,
        },
    }
    return parse_table(JointTraining, apply_changes(given, changes), "a recipe")


def digest(file: Path) -> str:
    """Name all tensors of a file by what is in them."""
    found = hashlib.sha256()
    for name, tensor in sorted(load_file(file).items()):
        found.update(name.encode() + tensor.contiguous().numpy().tobytes())
    return found.hexdigest()


def run(folder: Path, changes: Sequence[str], environment: Mapping[str, str]) -> None:
    """Train as one of several processes, if the environment says so."""
    torch.set_num_threads(1)
    os.environ |= environment
    world = replace(World.join(), device="cpu")  # as the run it is compared with
    train_joint(recipe(folder, changes), folder / "out", world=world)
    world.leave()
