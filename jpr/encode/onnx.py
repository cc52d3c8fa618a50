"""A tower in one ONNX file, on the CPU: what the light installation runs."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from jpr.encode.encoder import Vectors
from jpr.encode.onnx_session import OnnxModel, one_text
from jpr.errors import FormatError


class OnnxTower:
    """A model of `jpr.models.onnx_export`: ids and lengths to vectors; threads may share it."""

    budget = 65_536  # texts are read one by one, whatever is given together

    def __init__(self, path: Path, threads: int = 0) -> None:
        """Open a model, to run on so many threads; 0 is one per core."""
        self._model = OnnxModel(path, threads)
        inputs = [tensor.name for tensor in self._model.session.get_inputs()]
        outputs = self._model.session.get_outputs()
        if inputs != ["ids", "lengths"] or not isinstance(outputs[0].shape[-1], int):
            raise FormatError(
                path, 0, "is no encoder of ours; export it with jpr.models.onnx_export"
            )
        self.dimension: int = outputs[0].shape[-1]

    def vectors(self, rows: Sequence[Sequence[int]]) -> Vectors:
        """Return one vector per row of token ids."""
        texts = (one_text(row) for row in rows)
        return np.concatenate([vectors for (vectors,) in self._model.read(["vectors"], texts)])
