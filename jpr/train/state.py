"""What a run needs to resume, on disk: its state, published whole or not at all, and its log.

The state includes a moving average of the weights, which often generalizes better than they do.
"""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from jpr.errors import FormatError
from jpr.io.atomic import explain_write_errors, publish, publish_path

STATE = "state.safetensors"


@dataclass(frozen=True, slots=True)
class RunProgress:
    """How far a run has come; the fields are keys of the state on disk."""

    step: int = 0
    seconds: float = 0.0
    best: float = -math.inf  # the best score so far
    best_step: int = 0
    waited: int = 0  # evaluations since then


class MovingAverage:
    """An exponential moving average: after each step, decay · average + (1 − decay) · weights.

    After n steps the decay is at most (1 + n) / (10 + n), so that the first weights are forgotten
    soon. With a decay of 0 there is no average, at no cost.
    """

    def __init__(self, weights: Sequence[Tensor], decay: float) -> None:
        """Start with the weights as they are."""
        self._decay = decay
        self.values = [weight.detach().clone() for weight in weights] if decay else []

    @torch.no_grad()
    def update(self, weights: Sequence[Tensor], steps: int) -> None:
        """Include the weights after this number of steps."""
        if self.values:
            decay = min(self._decay, (1 + steps) / (10 + steps))
            torch._foreach_lerp_(self.values, [w.detach() for w in weights], 1 - decay)

    @contextmanager
    def instead_of(self, weights: Sequence[Tensor]) -> Iterator[None]:
        """Replace the weights by their average within the context."""
        kept = [weight.detach().clone() for weight in weights] if self.values else []
        _copy(self.values, weights)
        try:
            yield
        finally:
            _copy(kept, weights)


@torch.no_grad()
def _copy(values: Sequence[Tensor], weights: Sequence[Tensor]) -> None:
    for value, weight in zip(values, weights, strict=False):  # no values: nothing to copy
        weight.copy_(value)


def write_state(
    folder: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    average: MovingAverage,
    progress: RunProgress,
) -> None:
    """Write everything needed to resume."""
    tensors: dict[str, Tensor] = {f"model.{name}": w for name, w in model.named_parameters()}
    tensors |= {f"average.{i}": w for i, w in enumerate(average.values)}
    for i, moments in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{i}.{name}": value for name, value in moments.items()}
    plain = {name: w.detach().cpu().contiguous() for name, w in tensors.items()}
    described = json.dumps(asdict(progress))
    path, metadata = folder / STATE, {"progress": described, "sha256": _digest(plain, described)}
    with explain_write_errors(path, SafetensorError), publish_path(path) as part:
        save_file(plain, part, metadata)


def _digest(tensors: Mapping[str, Tensor], described: str) -> str:
    digest = hashlib.sha256(described.encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def read_state(
    folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, average: MovingAverage
) -> RunProgress:
    """Restore model, optimizer and average, and return the run's progress."""
    path = folder / STATE
    try:
        with safe_open(path, "pt") as stream:
            tensors = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118
            metadata: dict[str, str] = stream.metadata()
        if metadata.get("sha256") not in (None, _digest(tensors, metadata["progress"])):
            raise FormatError(path, 0, "is damaged (its hash differs); start the run from scratch")
        progress = RunProgress(**json.loads(metadata["progress"]))
        weights = dict(model.named_parameters())
        _copy([tensors[f"model.{name}"] for name in weights], list(weights.values()))
        moments: dict[int, dict[str, Tensor]] = {}
        for name in tensors:
            if name.startswith("optimizer."):
                _, i, kind = name.split(".")
                moments.setdefault(int(i), {})[kind] = tensors[name]
        groups = optimizer.state_dict()["param_groups"]
        optimizer.load_state_dict({"state": moments, "param_groups": groups})
        _copy([tensors[f"average.{i}"] for i in range(len(average.values))], average.values)
    except (SafetensorError, OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
        problem = f"is not a state of this run ({error})"
        raise FormatError(path, 0, f"{problem}; resume with the recipe of its start") from error
    return progress


def begin_log(path: Path, step: int) -> None:
    """Drop the lines of a log after the step at which a run begins or resumes."""
    kept = [line for line in read_log(path) if int(str(line["step"])) <= step]
    with publish(path) as stream:
        stream.writelines(f"{json.dumps(line)}\n" for line in kept)


def append_to_log(path: Path, line: Mapping[str, object]) -> None:
    """Append a line to a log."""
    with explain_write_errors(path), path.open("a", encoding="utf-8") as stream:
        stream.write(f"{json.dumps(dict(line))}\n")


def read_log(path: Path) -> list[dict[str, object]]:
    """Return the lines of a log, without one that was cut short when a run was killed."""
    found = []
    for text in path.read_bytes().splitlines() if path.exists() else ():
        with suppress(ValueError):
            line = json.loads(text)
            if isinstance(line, dict) and isinstance(line.get("step"), int):
                found.append(line)
    return found
