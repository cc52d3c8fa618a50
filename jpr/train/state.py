"""Where a training run stands, on disk: its state, published whole or not at all, and its log.

The state holds a hash of all that is in it.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from jpr.errors import FormatError
from jpr.io.atomic import explain_write_errors, publish, publish_path
from jpr.train.average import Average

STATE = "state.safetensors"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run has come."""

    step: int = 0
    seconds: float = 0.0
    best: float = -math.inf
    """The best score so far."""
    best_step: int = 0
    waited: int = 0
    """Evaluations since then."""

    def after(self, step: int, seconds: float) -> "Progress":
        """Return the progress after a step."""
        return replace(self, step=step, seconds=round(seconds, 3))

    def judged(self, score: float, better: bool) -> "Progress":
        """Return the progress after an evaluation."""
        if better:
            return replace(self, best=score, best_step=self.step, waited=0)
        return replace(self, waited=self.waited + 1)


def write_state(
    folder: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    average: Average,
    progress: Progress,
) -> None:
    """Write all that it takes to go on."""
    tensors: dict[str, Tensor] = {f"model.{name}": w for name, w in model.named_parameters()}
    tensors |= {f"average.{i}": w for i, w in enumerate(average.values)}
    for i, moments in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{i}.{name}": value for name, value in moments.items()}
    plain = {name: w.detach().cpu().contiguous() for name, w in tensors.items()}
    told = json.dumps(asdict(progress))
    path = folder / STATE
    with explain_write_errors(path, SafetensorError), publish_path(path) as part:
        save_file(plain, part, {"progress": told, "sha256": _digest(plain, told)})


def _digest(tensors: Mapping[str, Tensor], told: str) -> str:
    """Name tensors and progress by what they are."""
    digest = hashlib.sha256(told.encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def read_state(
    folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, average: Average
) -> Progress:
    """Bring model, optimizer and average to where they were, and say how far that is."""
    path = folder / STATE
    try:
        with safe_open(path, "pt") as stream:
            tensors = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118
            about: dict[str, str] = stream.metadata()
        told = about["progress"]
        if about.get("sha256") not in (None, _digest(tensors, told)):
            raise FormatError(path, 0, "is damaged: it is not what was written; begin the run anew")
        progress = Progress(**json.loads(told))
        _fill(model, tensors)
        optimizer.load_state_dict(
            {"state": _moments(tensors), "param_groups": optimizer.state_dict()["param_groups"]}
        )
        average.restore(
            [tensors[f"average.{i}"] for i in range(len(average.values))], progress.step
        )
    except (SafetensorError, OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
        problem = f"is no state of this run ({error}); resume with the recipe it began with"
        raise FormatError(path, 0, problem) from error
    return progress


@torch.no_grad()
def _fill(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    for name, weight in model.named_parameters():
        weight.copy_(tensors[f"model.{name}"])


def _moments(tensors: Mapping[str, Tensor]) -> dict[int, dict[str, Tensor]]:
    moments: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        if name.startswith("optimizer."):
            _, i, kind = name.split(".")
            moments.setdefault(int(i), {})[kind] = value
    return moments


class Log:
    """A file of JSON lines; what lies beyond the step at which a run goes on is dropped."""

    def __init__(self, path: Path, step: int) -> None:
        """Open the log of a run that has come to this step."""
        self._path = path
        kept = [line for line in read_log(path) if int(str(line["step"])) <= step]
        with publish(path) as stream:
            stream.writelines(f"{json.dumps(line)}\n" for line in kept)

    def write(self, line: Mapping[str, object]) -> None:
        """Add a line."""
        with explain_write_errors(self._path), self._path.open("a", encoding="utf-8") as stream:
            stream.write(f"{json.dumps(dict(line))}\n")


def read_log(path: Path) -> list[dict[str, object]]:
    """Return the lines of a log; one that was being written when a run was killed is left out."""
    found = []
    for line in path.read_bytes().splitlines() if path.exists() else ():
        with suppress(ValueError):
            told = json.loads(line)
            if isinstance(told, dict) and isinstance(told.get("step"), int):
                found.append(told)
    return found
