"""ONNX files as bytes, from anywhere: all weights must be inside."""

from pathlib import Path

from jpr.errors import FormatError
from jpr.io.atomic import explain_read_errors


def read_onnx(path: Path) -> bytes:
    """Read an ONNX file; one that refers to weights in other files is an error.

    onnxruntime would look for them in the current folder. The key of such a reference is always the
    word `location`, which no file of ours has elsewhere.
    """
    with explain_read_errors(path):
        model = path.read_bytes()
    if b"location" in model:
        problem = "refers to weights in other files; save the model as one file"
        raise FormatError(path, 0, problem)
    return model
