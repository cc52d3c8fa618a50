"""`jpr plan`: which readers, and how many passages, fit into a memory."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jpr.cli import screen
from jpr.errors import ConfigError

if TYPE_CHECKING:
    from jpr.models.memory import Load
    from jpr.models.t5_config import T5Config

NAME = "plan"
HELP = """Tell how many passages a T5 reader has memory for. All sizes are told.

For training, with and without checkpointing of the encoder, and for inference; and what the
paper's three readers of equal memory need.

Example: jpr plan --memory 24GB

Example: jpr plan --memory 80GiB --tokens 256 --batch 4 --model models/reader
"""
PAPER = (("base", 140), ("large", 40), ("3b", 10))
"""Readers and passages that the paper fits on the same hardware."""
_UNITS = {"MB": 10**6, "GB": 10**9, "TB": 10**12, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
_WAYS = {
    "training": "training",
    "checkpointing": "training, checkpointing",
    "inference": "inference",
}
"""What memory is needed for, and how tables say it."""

Found = dict[str, Any]


def run(
    memory: Annotated[str, typer.Option(help="Memory of the device, such as 24GB or 80GiB.")],
    tokens: Annotated[int, typer.Option(min=1, help="Of a question with a passage.")] = 200,
    answer: Annotated[int, typer.Option(min=1, help="Tokens of all answers together.")] = 40,
    batch: Annotated[int, typer.Option(min=1, help="Questions at a time.")] = 1,
    sizes: Annotated[
        str | None,
        typer.Option(help="Of T5, with commas between; all by default, none with --model."),
    ] = None,
    model: Annotated[
        Path | None, typer.Option(help="Folder of a T5, whose config.json is looked at.")
    ] = None,
    checkpointing: Annotated[
        bool | None,
        typer.Option(
            "--checkpointing/--no-checkpointing",
            help="Train with the encoder's blocks computed twice, or not; both by default.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Compute and tell."""
    from jpr.models.memory import Load

    room = read_memory(memory)
    left_out = {None: "", True: "training", False: "checkpointing"}[checkpointing]
    ways = [way for way in _WAYS if way != left_out]
    load = Load(1, tokens, answer, batch)
    shapes = _shapes(sizes, model)
    found: Found = {
        "memory": room,
        "tokens": tokens,
        "answer": answer,
        "batch": batch,
        "fits": [_fits(name, shape, load, room, ways) for name, shape in shapes.items()],
        "paper": [_needs(name, k, load, ways) for name, k in PAPER],
    }
    screen.say_json(found) if as_json else _tell(found, ways, memory)
    if not any(row[way] for row in found["fits"] for way in ways):
        screen.note(f"nothing fits into {memory}; give fewer --tokens or a smaller --batch")


def read_memory(text: str) -> int:
    """Return how many bytes are meant; GB are 10⁹ of them, GiB 2³⁰.

    >>> read_memory("1.5 GB")
    1500000000
    """
    found = re.fullmatch(r"\s*([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*([a-zA-Z]+)\s*", text)
    unit = _UNITS.get(found[2].upper()) if found else None
    size = int(float(found[1]) * unit) if found and unit else 0
    if size < 1:
        raise ConfigError(f"--memory {text}: give a number above 0 and its unit, such as 24GB")
    return size


def _shapes(sizes: str | None, model: Path | None) -> "dict[str, T5Config]":
    """Return what to plan for, by name."""
    from jpr.io.disk import read_object
    from jpr.models.memory import SHAPES
    from jpr.models.t5_config import T5Config

    asked = [] if sizes is None else [name.strip().lower() for name in sizes.split(",")]
    for name in asked:
        if name not in SHAPES:
            raise ConfigError(f"--sizes {sizes}: no size {name!r}; choose of {', '.join(SHAPES)}")
    found = {name: SHAPES[name] for name in asked}
    if model is not None:
        found[str(model)] = T5Config.of(read_object(model / "config.json"))
    return found or dict(SHAPES)


def _need(shape: "T5Config", load: "Load", way: str) -> int:
    """Return the bytes that something needs of a device, all told."""
    from jpr.models.memory import OUTSIDE, inference, training

    if way == "inference":
        return inference(shape, load).total + OUTSIDE
    return training(shape, load, checkpointing=way == "checkpointing").total + OUTSIDE


def _fits(name: str, shape: "T5Config", load: "Load", room: int, ways: list[str]) -> Found:
    """Return the largest k of a reader, way by way."""
    from dataclasses import replace

    from jpr.models.memory import most_passages

    found: Found = {"size": name, "weights": shape.weights}
    for way in ways:
        found[way] = most_passages(
            lambda k, way=way: _need(shape, replace(load, passages=k), way),  # type: ignore[misc]
            room,
        )
    return found


def _needs(name: str, k: int, load: "Load", ways: list[str]) -> Found:
    """Return the bytes that one of the paper's readers needs, way by way."""
    from dataclasses import replace

    from jpr.models.memory import SHAPES

    shape, given = SHAPES[name], replace(load, passages=k)
    needs = {way: _need(shape, given, way) for way in ways}
    return {"size": name, "k": k, "k x weights": k * shape.weights, **needs}


def _tell(found: Found, ways: list[str], memory: str) -> None:
    """Say it to a person, in two tables."""
    each = f"{found['tokens']} tokens each, {found['answer']} of answers, batch {found['batch']}"
    screen.say(f"The most passages that fit into {memory} ({each}):\n")
    rows = [
        [row["size"], f"{row['weights'] / 1e6:,.0f} M", *(_count(row[way]) for way in ways)]
        for row in found["fits"]
    ]
    screen.table(["size", "weights", *(_WAYS[way] for way in ways)], rows, numbers_from=1)
    screen.say("\nThe paper's readers on the same hardware, by what they need here:\n")
    rows = [
        [
            f"{row['k']} passages, {row['size']}",
            f"{row['k x weights'] / 1e9:.1f} G",
            *(f"{row[way] / 1e9:.1f} GB" for way in ways),
        ]
        for row in found["paper"]
    ]
    screen.table(["reader", "k x weights", *(_WAYS[way] for way in ways)], rows, numbers_from=1)


def _count(k: int) -> str:
    return f"{k:,}" if k else "none fits"
