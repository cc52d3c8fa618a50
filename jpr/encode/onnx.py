"""A tower in one ONNX file, on the CPU: what the light installation runs."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from jpr.encode.encoder import Vectors
from jpr.encode.session import cores, open_session
from jpr.errors import FormatError


class OnnxTower:
    """A model of `jpr.models.export`: ids and lengths to vectors; threads may share it."""

    budget = 65_536  # texts are read one by one, whatever is given together

    def __init__(self, path: Path, threads: int = 0) -> None:
        """Open a model, to run on so many threads; 0 is one per core."""
        # Text by text, each on one core: nothing is padded, what a text needs fits the core's own
        # cache, and no core waits for another after every product.
        self._session = open_session(path, 1)
        self._cores = ThreadPoolExecutor(threads or cores(), "jpr-encode")
        inputs = [tensor.name for tensor in self._session.get_inputs()]
        outputs = self._session.get_outputs()
        if inputs != ["ids", "lengths"] or not isinstance(outputs[0].shape[-1], int):
            raise FormatError(path, 0, "is no encoder of ours; export it with jpr.models.export")
        self.dimension: int = outputs[0].shape[-1]

    def vectors(self, rows: Sequence[Sequence[int]]) -> Vectors:
        """Return one vector per row of token ids."""
        return np.concatenate(list(self._cores.map(self._vector, rows)))

    def _vector(self, row: Sequence[int]) -> Vectors:
        given = {"ids": np.array([row], dtype=np.int64), "lengths": np.array([len(row)])}
        found: Vectors = self._session.run(["vectors"], given)[0]
        return found
