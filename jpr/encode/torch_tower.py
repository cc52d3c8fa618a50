"""A tower in torch, for the GPU and for weights that were not exported.

On CUDA it runs in bfloat16 without padding; on a CPU in float32, since CPUs multiply that faster.
"""

from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file

from jpr.encode.encoder import Vectors
from jpr.encode.encoder_settings import EncoderSettings, read_modules
from jpr.errors import ConfigError, DataError, FormatError
from jpr.models.checkpoint import read_checkpoint
from jpr.models.tower import Tower, VectorHead, tower_from_weights

_GELU = ("gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh")
"""All are computed as the first; the others approximate it to within 0.0005."""


class TorchTower:
    """A `jpr.models.tower.Tower` on a device; threads may share it."""

    def __init__(self, tower: Tower, device: str) -> None:
        if device == "cuda" and not torch.cuda.is_available():
            raise ConfigError("device cuda: torch sees no GPU here; use cpu or auto")
        self._tower, self._device = tower.to(device), device
        self.dimension = tower.dimension
        self.budget = 65_536 if device == "cuda" else 2048

    def vectors(self, rows: Sequence[Sequence[int]]) -> Vectors:
        """Return one vector per row of token ids."""
        counts = np.array([len(row) for row in rows])
        ids = np.fromiter(chain.from_iterable(rows), dtype=np.int64, count=int(counts.sum()))
        inputs = (torch.from_numpy(array).to(self._device) for array in (ids, counts))
        half = torch.autocast("cuda", torch.bfloat16, enabled=self._device == "cuda")
        with torch.inference_mode(), half:
            vectors: Vectors = self._tower(*inputs).cpu().numpy()
        return vectors


def load_tower(folder: Path, settings: EncoderSettings) -> Tower:
    """Read the weights of a Hugging Face folder, or of one that has only our ONNX model."""
    head = VectorHead(settings.pooling, settings.projection, settings.normalise)
    if not (folder / "config.json").exists() and (folder / "model.onnx").exists():
        from jpr.models.onnx_weights import tower_from_onnx  # needs onnx

        return tower_from_onnx(folder / "model.onnx", head)
    config, weights = read_checkpoint(folder)
    for path in [path for kind, path in read_modules(folder) if kind == "Dense"]:
        file = folder / path / "model.safetensors"
        if not file.exists():
            raise FormatError(file, 0, "missing; the encoder has a layer after pooling")
        for name, weight in load_file(file).items():
            weights[f"projection.dense.{name.removeprefix('linear.')}"] = weight
    if config.get("hidden_act", "gelu") not in _GELU:
        problem = f"hidden_act {config['hidden_act']!r} is unknown; known: {', '.join(_GELU)}"
        raise FormatError(folder, 0, problem)
    if config.get("model_type") == "dpr":
        config = {**config, "model_type": "bert"}
    try:
        return tower_from_weights(config, weights, head)
    except DataError as error:
        raise FormatError(folder, 0, str(error)) from error
