"""ONNX models on the CPU, and the encoder tower that the light installation runs."""

import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnxruntime.capi import onnxruntime_pybind11_state as states

from jpr.encode.encoder import Vectors
from jpr.errors import FormatError
from jpr.io.manifest import usable_cores
from jpr.models.onnx_file import read_onnx

Floats = NDArray[np.float32]
OnnxInputs = dict[str, NDArray[np.generic]]

_DAMAGE = (
    states.Fail,
    states.InvalidArgument,
    states.InvalidGraph,
    states.InvalidProtobuf,
    states.NotImplemented,
    UnicodeDecodeError,  # of a message that quotes the file
)


def one_text(ids: Sequence[int]) -> OnnxInputs:
    """Return the inputs of our encoder graphs for one text."""
    return {"ids": np.array([ids], dtype=np.int64), "lengths": np.array([len(ids)], dtype=np.int64)}


def open_session(path: Path, threads: int = 0) -> onnxruntime.InferenceSession:
    """Open a model to run on `threads` threads (0: one per core); callers may share it."""
    options = onnxruntime.SessionOptions()
    # The library's default counts all cores of the machine, even those not allowed to us. But an
    # explicit number leaves its threads unpinned, a tenth slower: so only where they differ.
    allowed = usable_cores()
    options.intra_op_num_threads = threads or (allowed if allowed < (os.cpu_count() or 1) else 0)
    # The graph is exported as it should run; a fused layer norm, for one, is slower on the CPU.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    # Dequantize weights that are only stored in 8 bits once, not at every run.
    options.add_session_config_entry("session.disable_quant_qdq", "1")
    options.log_severity_level = 3  # warnings concern the author of the graph
    model = read_onnx(path)
    try:
        return onnxruntime.InferenceSession(
            model,
            options,
            providers=["CPUExecutionProvider"],
            enable_fallback=0,  # 1 prints errors
        )
    except _DAMAGE as error:
        raise FormatError(path, 0, "not a valid ONNX model; copy it again") from error


class OnnxModel:
    """A model that reads one text per thread, in as many threads as there are cores.

    So there is no padding, a text's activations fit one core's cache, and cores never wait for
    each other. Threads may share it.
    """

    def __init__(self, path: Path, threads: int = 0) -> None:
        """Open a model to run on `threads` threads; 0 is one per core."""
        self._path, self.session = path, open_session(path, 1)
        self._threads = threads or usable_cores()
        self._workers: dict[int, ThreadPoolExecutor] = {}
        """By process: a fork does not inherit its parent's threads."""

    def read(self, outputs: Sequence[str], texts: Iterable[OnnxInputs]) -> Iterator[list[Floats]]:
        """Yield these outputs for each text, in order."""
        if self._threads == 1:
            yield from (self._run(outputs, text) for text in texts)
            return
        idle = ThreadPoolExecutor(self._threads, "jpr-text")  # without threads until it has work
        workers = self._workers.setdefault(os.getpid(), idle)
        pending: deque[Future[list[Floats]]] = deque()
        try:
            for text in texts:
                pending.append(workers.submit(self._run, outputs, text))
                if len(pending) > 2 * self._threads:  # few queued: other callers get a turn
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()

    def _run(self, outputs: Sequence[str], text: OnnxInputs) -> list[Floats]:
        try:
            found: list[Floats] = self.session.run(outputs, text)
        except _DAMAGE as error:
            problem = f"cannot read a text ({error}); is the tokenizer in its folder its own?"
            raise FormatError(self._path, 0, problem) from error
        return found


class OnnxTower:
    """A `TextTower` in a file that `jpr.models.onnx_export` wrote; threads may share it."""

    budget = 65_536  # texts run one per thread, whatever the batch

    def __init__(self, path: Path, threads: int = 0) -> None:
        self._model = OnnxModel(path, threads)
        inputs = [tensor.name for tensor in self._model.session.get_inputs()]
        outputs = self._model.session.get_outputs()
        if inputs != ["ids", "lengths"] or not isinstance(outputs[0].shape[-1], int):
            raise FormatError(path, 0, "not an encoder that jpr export made")
        self.dimension: int = outputs[0].shape[-1]

    def vectors(self, rows: Sequence[Sequence[int]]) -> Vectors:
        """Return one vector per row of token ids."""
        texts = (one_text(row) for row in rows)
        return np.concatenate([vectors for (vectors,) in self._model.read(["vectors"], texts)])
