"""Hugging Face folders: `config.json` and weights as safetensors, whole or in shards.

A `pytorch_model.bin` is read too, without running code that may hide in it. Names of weights are
the library's own; each model says how they become its own.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from jpr.errors import FormatError

Config = dict[str, object]


def read_checkpoint(folder: Path) -> tuple[Config, dict[str, Tensor]]:
    """Read a folder's configuration and all its weights."""
    config = read_json_object(folder / "config.json")
    tensors: dict[str, Tensor] = {}
    for path in _weight_files(folder):
        try:
            if path.suffix == ".bin":
                tensors |= torch.load(path, map_location="cpu", weights_only=True)
            else:
                tensors |= load_file(path)
        except (OSError, RuntimeError, ValueError, SafetensorError) as error:
            raise FormatError(path, 0, f"holds no weights ({error}); copy it again") from error
    return config, tensors


def write_checkpoint(
    folder: Path, config: Mapping[str, object], tensors: dict[str, Tensor]
) -> None:
    """Write a folder that `read_checkpoint` and Hugging Face read; each file whole or not."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = folder / ".model.safetensors.part"
    save_file({name: w.contiguous() for name, w in tensors.items()}, weights, {"format": "pt"})
    _publish(weights, folder / "model.safetensors")
    text = folder / ".config.json.part"
    text.write_text(json.dumps(dict(config), indent=1) + "\n", encoding="utf-8")
    _publish(text, folder / "config.json")


def read_json_object(path: Path) -> dict[str, object]:
    """Read a file that holds one JSON object."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FormatError(path, 0, f"cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise FormatError(path, 0, f"is no JSON ({error}); copy it again") from error
    if not isinstance(value, dict):
        raise FormatError(path, 0, "holds no JSON object; is it the right file?")
    return value


def _weight_files(folder: Path) -> list[Path]:
    for name in ("model.safetensors", "pytorch_model.bin"):
        index = folder / f"{name}.index.json"
        if (folder / name).exists():
            return [folder / name]
        if index.exists():
            shards = read_json_object(index).get("weight_map")
            if not isinstance(shards, dict):
                raise FormatError(index, 0, "has no weight_map; copy it again")
            return [folder / str(shard) for shard in sorted(set(shards.values()))]
    raise FormatError(folder, 0, "holds neither model.safetensors nor pytorch_model.bin")


def _publish(part: Path, path: Path) -> None:
    with part.open("rb") as stream:
        os.fsync(stream.fileno())
    part.replace(path)
