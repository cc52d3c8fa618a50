"""A tower in one ONNX file, on the CPU: what the light installation runs."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from jpr.encode.encoder import Vectors
from jpr.encode.session import open_session
from jpr.errors import FormatError


class OnnxTower:
    """A model of `jpr.models.export`: ids and lengths to vectors; threads may share it."""

    budget = 1024  # small enough for the caches of one core

    def __init__(self, path: Path, threads: int = 0) -> None:
        """Open a model, to run on so many threads; 0 is one per core."""
        self._session = open_session(path, threads)
        inputs = [tensor.name for tensor in self._session.get_inputs()]
        outputs = self._session.get_outputs()
        if inputs != ["ids", "lengths"] or not isinstance(outputs[0].shape[-1], int):
            raise FormatError(path, 0, "is no encoder of ours; export it with jpr.models.export")
        self.dimension: int = outputs[0].shape[-1]

    def vectors(self, rows: Sequence[Sequence[int]]) -> Vectors:
        """Return one vector per row of token ids."""
        lengths = np.array([len(row) for row in rows], dtype=np.int64)
        ids = np.zeros((len(rows), int(lengths.max())), dtype=np.int64)
        for place, row in enumerate(rows):
            ids[place, : len(row)] = row
        found: Vectors = self._session.run(["vectors"], {"ids": ids, "lengths": lengths})[0]
        return found
