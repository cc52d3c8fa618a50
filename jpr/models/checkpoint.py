"""Hugging Face folders: `config.json` and weights as safetensors, in one file or in shards.

A `pytorch_model.bin` is read too, without running code that it may contain.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from jpr.errors import DataError, FormatError
from jpr.io.atomic import publish_path
from jpr.io.json_files import read_object, write_json
from jpr.models.padding import parts

Weights = Mapping[str, Tensor]
Names = Mapping[str, tuple[str, ...]]
"""For each of our weights, the Hugging Face weights that are concatenated in it."""

SHARD_BYTES = 5_000_000_000
"""Larger checkpoints are split, since not every disk and server takes larger files."""
_WHOLE = "model.safetensors"


class _NoInitialization(TorchFunctionMode):
    """Skip the random initialization of tensors."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # noqa: ANN401
        if func.__name__ in ("normal_", "uniform_"):
            return args[0] if args else (kwargs or {})["tensor"]
        return func(*args, **(kwargs or {}))


@contextmanager
def shapes_only() -> Iterator[None]:
    """Make models on the meta device: no values, no memory.

    Random values on that device would make torch load its compiler, which takes a second.
    """
    with torch.device("meta"), _NoInitialization():
        yield


def load_weights(model: nn.Module, weights: Weights, names: Names | None = None) -> None:
    """Give a model its weights, without copying them, to run and not to train.

    Weights that are not the model's are rejected; errors use `names` if given.
    """
    expected = model.state_dict()
    for name, weight in expected.items():
        known_as = ", ".join((names or {}).get(name, (name,)))
        if name not in weights:
            raise DataError(f"the weight {known_as} is missing")
        if weights[name].shape != weight.shape:
            shapes = f"{tuple(weights[name].shape)} instead of {tuple(weight.shape)}"
            raise DataError(f"the weight {known_as} has the shape {shapes}; does the config fit?")
    if others := sorted(weights.keys() - expected.keys()):
        raise DataError(f"the weight {others[0]} is not one of this model")
    model.load_state_dict(weights, assign=True)
    model.eval()


def read_checkpoint(folder: Path) -> tuple[dict[str, object], dict[str, Tensor]]:
    """Read a folder's configuration and all its weights."""
    config = read_object(folder / "config.json")
    weights: dict[str, Tensor] = {}
    for path in _weight_files(folder):
        weights |= _load(path)
    return config, weights


def stack_weights(weights: Weights, names: Names, kind: str) -> dict[str, Tensor]:
    """Return our weights, each concatenated from those of a checkpoint of this kind."""
    try:
        return {
            ours: torch.cat([weights[name] for name in theirs])
            if theirs[1:]
            else weights[theirs[0]]
            for ours, theirs in names.items()
        }
    except KeyError as error:
        raise DataError(f"the checkpoint lacks the weight {error}; is it a {kind}?") from error


def unstack_weights(weights: Weights, names: Names) -> dict[str, Tensor]:
    """Undo `stack_weights`."""
    return {
        name: part
        for ours, theirs in names.items()
        for name, part in zip(theirs, weights[ours].chunk(len(theirs)), strict=True)
    }


def _load(path: Path) -> dict[str, Tensor]:
    """Read the weights of a file, which must be finite."""
    try:
        if path.suffix == ".bin":
            found = torch.load(path, map_location="cpu", weights_only=True)
        else:
            found = load_file(path)
    except (OSError, EOFError, RuntimeError, ValueError, UnpicklingError, SafetensorError) as error:
        reason = " ".join(str(error).split())[:200] or "it is empty"
        raise FormatError(path, 0, f"holds no weights ({reason}); copy it again") from error
    if not isinstance(found, dict) or not all(isinstance(w, Tensor) for w in found.values()):
        raise FormatError(path, 0, "holds something else than weights by name; save those alone")
    for name, weight in found.items():
        if weight.is_floating_point() and weight.numel():
            largest = torch.stack(torch.aminmax(weight)).abs().max()  # propagates NaN
            if not bool(largest.isfinite()):
                problem = f"the weight {name} holds NaN or infinity; use an earlier checkpoint"
                raise FormatError(path, 0, problem)
    return found


def write_checkpoint(
    folder: Path, config: Mapping[str, object], weights: Weights, shard_bytes: int = SHARD_BYTES
) -> list[str]:
    """Write a folder that `read_checkpoint` and Hugging Face read; return its file names."""
    folder.mkdir(parents=True, exist_ok=True)
    groups = parts(np.array([weight.nbytes for weight in weights.values()]), shard_bytes)
    n, names = len(groups), list(weights)
    shards = {
        f"model-{i:05}-of-{n:05}.safetensors" if n > 1 else _WHOLE: names[group]
        for i, group in enumerate(groups, 1)
    }
    with ExitStack() as stack:
        for name, shard in shards.items():
            contiguous = {weight: weights[weight].contiguous() for weight in shard}
            part = stack.enter_context(publish_path(folder / name))
            save_file(contiguous, part, {"format": "pt"})
    index = folder / f"{_WHOLE}.index.json"
    if len(shards) > 1:
        total = sum(weight.nbytes for weight in weights.values())
        where = {weight: name for name, shard in shards.items() for weight in shard}
        write_json(index, {"metadata": {"total_size": total}, "weight_map": where})
        (folder / _WHOLE).unlink(missing_ok=True)  # it would be read instead
    else:
        index.unlink(missing_ok=True)
    write_json(folder / "config.json", config)
    return [*shards, "config.json", *([index.name] if len(shards) > 1 else [])]


def _weight_files(folder: Path) -> list[Path]:
    for name in (_WHOLE, "pytorch_model.bin"):
        index = folder / f"{name}.index.json"
        if (folder / name).exists():
            return [folder / name]
        if index.exists():
            shards = read_object(index).get("weight_map")
            if not isinstance(shards, dict):
                raise FormatError(index, 0, "has no weight_map; copy it again")
            names = dict.fromkeys(map(str, shards.values()))
            if outside := [name for name in names if not name or name != Path(name).name]:
                problem = f"{outside[0]!r} is not a file name of its folder; copy it again"
                raise FormatError(index, 0, problem)
            return [folder / name for name in names]
    raise FormatError(folder, 0, "holds neither model.safetensors nor pytorch_model.bin")
