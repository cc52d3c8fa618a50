"""A joint model in torch: on a GPU in 16 bits, or on the CPU where it was not exported."""

from collections.abc import Sequence
from pathlib import Path

import torch

from jpr.encode.folder import digest_of, weight_files
from jpr.errors import ConfigError
from jpr.models.joint import Candidates, IndexHead, JointModel
from jpr.models.joint_folder import read_joint
from jpr.models.rooms import Rooms
from jpr.models.steps import Steps
from jpr.rerank.scorer import Asked, NextLogProbs


class TorchScorer:
    """A `JointModel` on its device."""

    batch = 8

    def __init__(self, model: JointModel, key: str = "") -> None:
        """Take a model where it is; `key` names its weights."""
        self._model, self._rooms, self.key = model, Rooms(model), key
        self.ahead = 12 if next(model.parameters()).is_cuda else 4
        self.numbers = len(model.head.tokens) if isinstance(model.head, IndexHead) else 0

    @classmethod
    def load(cls, folder: Path, device: str) -> "TorchScorer":
        """Read a folder's weights for a device: `cuda` or `cpu`."""
        if device == "cuda" and not torch.cuda.is_available():
            raise ConfigError("device cuda: torch sees no GPU here; use cpu or auto")
        model, _ = read_joint(folder)
        dtype = torch.bfloat16 if device == "cuda" else torch.float32
        return cls(model.to(device, dtype), digest_of(weight_files(folder)))

    def open(self, asked: Sequence[Asked]) -> NextLogProbs:
        """Read the candidates of several questions at once."""
        candidates = _candidates(asked, next(self._model.parameters()).device)
        with torch.inference_mode():
            return Steps(self._model, self._rooms.encode(candidates), self._rooms)


def _candidates(asked: Sequence[Asked], device: torch.device) -> Candidates:
    flat = [one for question in asked for one in question.prompted]
    numbers = [number for question in asked for number in question.numbers]
    prior = torch.cat([torch.from_numpy(question.prior) for question in asked])
    return Candidates(
        ids=torch.tensor([token for one in flat for token in one.ids], device=device),
        lengths=torch.tensor([len(one.ids) for one in flat], device=device),
        counts=tuple(len(question.prompted) for question in asked),
        marks=torch.tensor([one.mark for one in flat], device=device),
        numbers=torch.tensor(numbers, device=device),
        prior=prior.to(device),
    )
