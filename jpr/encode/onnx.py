"""A tower in one ONNX file, on the CPU: what the light installation runs."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as states

from jpr.encode.encoder import Vectors
from jpr.errors import FormatError

_DAMAGE = (states.Fail, states.InvalidArgument, states.InvalidGraph, states.InvalidProtobuf)


class OnnxTower:
    """A model of `jpr.models.export`: ids and lengths to vectors; threads may share it."""

    budget = 1024  # small enough for the caches of one core

    def __init__(self, path: Path, threads: int = 0) -> None:
        """Open a model, to run on so many threads; 0 is one per core."""
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        # The graph is made as it should run; a fused norm, for one, is slower on the CPU.
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.log_severity_level = 3  # warnings are for who makes the graph
        try:
            self._session = onnxruntime.InferenceSession(
                path.read_bytes(), options, providers=["CPUExecutionProvider"]
            )
        except OSError as error:
            raise FormatError(path, 0, f"cannot be read: {error.strerror}") from error
        except _DAMAGE as error:
            raise FormatError(path, 0, "is no model that can be run; copy it again") from error
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
