"""ONNX models on the CPU."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Lock

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnxruntime.capi import onnxruntime_pybind11_state as states

from jpr.errors import FormatError

Floats = NDArray[np.float32]
OnnxInputs = dict[str, NDArray[np.generic]]
Run = Callable[[OnnxInputs], list[Floats]]

_DAMAGE = (
    states.Fail,
    states.InvalidArgument,
    states.InvalidGraph,
    states.InvalidProtobuf,
    states.NotImplemented,
)


def one_text(ids: Sequence[int]) -> OnnxInputs:
    """Return one text as encoders of ours take it."""
    return {"ids": np.array([ids], dtype=np.int64), "lengths": np.array([len(ids)], dtype=np.int64)}


def open_session(path: Path, threads: int = 0) -> onnxruntime.InferenceSession:
    """Open a model, to run on so many threads; 0 is one per core. Threads may share it."""
    options = onnxruntime.SessionOptions()
    # Left to itself, it takes all cores of the machine, also those this process may not use.
    options.intra_op_num_threads = threads or _some_cores()
    # The graph is made as it should run; a fused norm, for one, is slower on the CPU.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    # Matrices that are only stored in 8 bits become 32 bits once, not at every run.
    options.add_session_config_entry("session.disable_quant_qdq", "1")
    options.log_severity_level = 3  # warnings are for who makes the graph
    try:
        return onnxruntime.InferenceSession(
            path.read_bytes(), options, providers=["CPUExecutionProvider"]
        )
    except OSError as error:
        raise FormatError(path, 0, f"cannot be read: {error.strerror}") from error
    except _DAMAGE as error:
        raise FormatError(path, 0, "is no model that can be run; copy it again") from error


class OnnxModel:
    """A model that reads texts one by one, as many at once as it has threads.

    So nothing is padded, what a text needs fits a core's own cache, and no core waits for another
    after every product. Threads may share it.
    """

    def __init__(self, path: Path, threads: int = 0) -> None:
        """Open a model, to run on so many threads; 0 is one per core."""
        self.session = open_session(path, 1)
        self._threads = threads or _cores()
        self._process = -1
        self._pool: ThreadPoolExecutor | None = None
        self._lock = Lock()

    def read(self, outputs: Sequence[str], texts: Iterable[OnnxInputs]) -> Iterator[list[Floats]]:
        """Yield these outputs for each text, in order."""

        def run(text: OnnxInputs) -> list[Floats]:
            found: list[Floats] = self.session.run(outputs, text)
            return found

        return map(run, texts) if self._threads == 1 else self._beside(run, texts)

    def _beside(self, run: Run, texts: Iterable[OnnxInputs]) -> Iterator[list[Floats]]:
        """Yield what is made of each text; few wait at a time, so that other callers get a turn."""
        under_way: deque[Future[list[Floats]]] = deque()
        try:
            for text in texts:
                under_way.append(self._workers().submit(run, text))
                if len(under_way) > 2 * self._threads:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()
        finally:
            for one in under_way:
                one.cancel()

    def _workers(self) -> ThreadPoolExecutor:
        """Return the threads of this process; one that was forked has none of its parent's."""
        with self._lock:
            if self._pool is None or self._process != os.getpid():
                self._process = os.getpid()
                self._pool = ThreadPoolExecutor(self._threads, "jpr-text")
            return self._pool


def _cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _some_cores() -> int:
    """Return how many cores this process may use, where they are not all; else 0.

    Told the number of all of them, it would not bind its threads to them, and be a tenth slower.
    """
    return mine if (mine := _cores()) < (os.cpu_count() or 1) else 0
