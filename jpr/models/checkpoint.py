"""Hugging Face folders: `config.json` and weights as safetensors, whole or in shards.

A `pytorch_model.bin` is read too, without running code that may hide in it. Names of weights are
the library's own; each model says how they become its own.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from pickle import UnpicklingError

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.overrides import TorchFunctionMode

from jpr.errors import DataError, FormatError
from jpr.io.atomic import publish_path
from jpr.io.json_files import read_object, write_json

Config = dict[str, object]

SHARD_BYTES = 5_000_000_000
"""Weights beyond this go into several files, since not every disk and server takes larger ones."""
_WHOLE = "model.safetensors"


class _NothingDrawn(TorchFunctionMode):
    """Leaves weights as they are where they would begin at random."""

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        """Do as told, but for drawing numbers into a tensor."""
        if func.__name__ in ("normal_", "uniform_"):
            return args[0] if args else (kwargs or {})["tensor"]
        return func(*args, **(kwargs or {}))


@contextmanager
def shapes_only() -> Iterator[None]:
    """Make models without any numbers in them: nothing is filled, and nothing takes memory.

    To draw numbers that are nowhere, torch would load its compiler first: a second.
    """
    with torch.device("meta"), _NothingDrawn():
        yield


def read_checkpoint(folder: Path) -> tuple[Config, dict[str, Tensor]]:
    """Read a folder's configuration and all its weights."""
    config = read_object(folder / "config.json")
    tensors: dict[str, Tensor] = {}
    for path in _weight_files(folder):
        found = _load(path)
        _check_numbers(path, found)
        tensors |= found
    return config, tensors


def stack_weights(
    weights: Mapping[str, Tensor], names: Mapping[str, tuple[str, ...]], kind: str
) -> dict[str, Tensor]:
    """Return our weights, each made of those under its names in a checkpoint of some kind."""
    try:
        return {
            ours: weights[theirs[0]]
            if len(theirs) == 1
            else torch.cat([weights[name] for name in theirs])
            for ours, theirs in names.items()
        }
    except KeyError as error:
        raise DataError(f"the checkpoint lacks the weight {error}; is it a {kind}?") from error


def unstack_weights(
    weights: Mapping[str, Tensor], names: Mapping[str, tuple[str, ...]]
) -> dict[str, Tensor]:
    """Return what `stack_weights` was given."""
    return {
        name: part
        for ours, theirs in names.items()
        for name, part in zip(theirs, weights[ours].chunk(len(theirs)), strict=True)
    }


def _load(path: Path) -> dict[str, Tensor]:
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
    return found


def _check_numbers(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Refuse weights that are no numbers: everything computed from them would be none either."""
    for name, weight in tensors.items():
        if weight.is_floating_point() and weight.numel():
            largest = torch.stack(torch.aminmax(weight)).abs().max()  # carries NaN along
            if not bool(largest.isfinite()):
                problem = f"the weight {name} holds NaN or infinity; take an earlier checkpoint"
                raise FormatError(path, 0, problem)


def write_checkpoint(
    folder: Path,
    config: Mapping[str, object],
    tensors: Mapping[str, Tensor],
    shard_bytes: int = SHARD_BYTES,
) -> list[str]:
    """Write a folder that `read_checkpoint` and Hugging Face read; each file whole or not.

    Return the names of the files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    shards = _shards(tensors, shard_bytes)
    names = _shard_names(len(shards))
    with ExitStack() as stack:
        for name, shard in zip(names, shards, strict=True):
            plain = {weight: tensors[weight].contiguous() for weight in shard}
            part = stack.enter_context(publish_path(folder / name))
            save_file(plain, part, {"format": "pt"})
    index = folder / f"{_WHOLE}.index.json"
    if len(shards) > 1:
        where = {
            weight: name for name, shard in zip(names, shards, strict=True) for weight in shard
        }
        total = sum(weight.nbytes for weight in tensors.values())
        write_json(index, {"metadata": {"total_size": total}, "weight_map": where})
        (folder / _WHOLE).unlink(missing_ok=True)  # a whole file would be read instead
    else:
        index.unlink(missing_ok=True)
    write_json(folder / "config.json", config)
    return [*names, "config.json", *([index.name] if len(shards) > 1 else [])]


def _shards(tensors: Mapping[str, Tensor], limit: int) -> list[list[str]]:
    """Cut names into runs of at most `limit` bytes, or of one weight that is larger."""
    shards: list[list[str]] = [[]]
    size = 0
    for name, weight in tensors.items():
        if shards[-1] and size + weight.nbytes > limit:
            shards.append([])
            size = 0
        shards[-1].append(name)
        size += weight.nbytes
    return shards


def _shard_names(count: int) -> list[str]:
    if count == 1:
        return [_WHOLE]
    return [f"model-{i:05}-of-{count:05}.safetensors" for i in range(1, count + 1)]


def _weight_files(folder: Path) -> list[Path]:
    for name in (_WHOLE, "pytorch_model.bin"):
        index = folder / f"{name}.index.json"
        if (folder / name).exists():
            return [folder / name]
        if index.exists():
            shards = read_object(index).get("weight_map")
            if not isinstance(shards, dict):
                raise FormatError(index, 0, "has no weight_map; copy it again")
            return [_shard(index, shard) for shard in dict.fromkeys(map(str, shards.values()))]
    raise FormatError(folder, 0, "holds neither model.safetensors nor pytorch_model.bin")


def _shard(index: Path, name: str) -> Path:
    """Return a file that a checkpoint says it consists of, which lies beside its index."""
    if not name or name != Path(name).name:
        raise FormatError(index, 0, f"{name!r} names no file of its folder; copy it again")
    return index.parent / name
