"""The weights of a span head as `spans.npz` holds them; without torch.

project   (d, 2 + 2 · rank)   columns: begin, end, first / √rank, last
bias      (2,)                of begin and of end
lengths   (longest,)          of spans of 1, 2, … tokens
"""

from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from jpr.errors import FormatError

Floats = NDArray[np.float32]
_UNREADABLE = (OSError, EOFError, ValueError, TypeError, KeyError, RuntimeError, BadZipFile)
"""What numpy and zipfile raise for damaged files, and for files of something else."""


@dataclass(frozen=True, slots=True, eq=False)
class SpanWeights:
    """The three arrays, in float32."""

    project: Floats
    bias: Floats
    lengths: Floats

    def write(self, file: Path) -> None:
        """Write the file; the same weights are the same bytes."""
        np.savez(file, **asdict(self))

    @classmethod
    def read(cls, file: Path, d: int) -> "SpanWeights":
        """Read the file of a model of this width."""
        try:
            with np.load(BytesIO(file.read_bytes()), allow_pickle=False) as arrays:
                found = cls(arrays["project"], arrays["bias"], arrays["lengths"])
        except FileNotFoundError as error:
            problem = "is missing: the model was exported by jpr 0.1, which read one answer from a "
            advice = "passage, or copied without it; copy it again, or train and export it again"
            raise FormatError(file, 0, problem + advice) from error
        except _UNREADABLE as error:
            problem = f"does not hold the weights of a span head ({error}); export the model again"
            raise FormatError(file, 0, problem) from error
        found._check(file, d)
        return found

    def _check(self, file: Path, d: int) -> None:
        columns = self.project.shape[-1] if self.project.ndim == 2 else 0
        shapes = [self.project.shape, self.bias.shape, self.lengths.shape]
        fits = columns > 2 and columns % 2 == 0 and self.lengths.size > 0
        if not fits or shapes != [(d, columns), (2,), (self.lengths.size,)]:
            problem = f"has arrays of the shapes {shapes}; its model has vectors of {d} numbers"
            raise FormatError(file, 0, f"{problem}: export the model again")
        for array in (self.project, self.bias, self.lengths):
            if array.dtype != np.float32 or not np.isfinite(array).all():
                problem = "holds something else than finite float32 numbers; export the model again"
                raise FormatError(file, 0, problem)
