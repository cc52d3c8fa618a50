"""What a joint model's folder says of itself; without torch, for those who run it without."""

from collections.abc import Mapping
from pathlib import Path

from jpr.errors import FormatError
from jpr.io.checksums import read_record

JOINT_JSON = "joint.json"
KIND, FORMAT = "joint", 1
ENCODER_FILE, STEP_FILE = "encoder.onnx", "step.onnx"
"""The files of a model that runs without torch."""
EXACT_INPUT = "exact"
"""The input that tells an encoder in 8 bits to compute in 32."""


def read_joint_json(folder: Path) -> dict[str, object]:
    """Read a folder's `joint.json`, after a look at whether it is one that we know."""
    file = folder / JOINT_JSON
    if not folder.is_dir():
        raise FormatError(folder, 0, "is no folder; name that of a joint model")
    if not file.exists():
        raise FormatError(
            folder, 0, f"is no joint model: {JOINT_JSON} is missing; is it an encoder?"
        )
    return read_model_json(file, KIND, FORMAT)


def read_model_json(file: Path, kind: str, format: int) -> dict[str, object]:
    """Read what a file says of a model, which must be of this kind and format."""
    about = read_record(file)
    if about.get("kind") != kind or about.get("format") != format:
        told = f"kind {about.get('kind')!r}, format {about.get('format')!r}"
        raise FormatError(file, 0, f"is of {told}; this program reads {kind}, {format}")
    return about


def is_bert_pointer(about: Mapping[str, object]) -> bool:
    """Tell whether a model is a BERT with a pointer head.

    Of these alone, ONNX files can be turned back into weights for torch.
    """
    shape = about.get("encoder_config")
    kind = shape.get("model_type", "bert") if isinstance(shape, dict) else None
    return (about.get("encoder"), kind, about.get("head")) == ("bert", "bert", "pointer")
