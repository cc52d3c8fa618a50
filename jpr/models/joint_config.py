"""`joint.json`, which describes a joint model's folder; without torch."""

from collections.abc import Mapping
from pathlib import Path

from jpr.errors import FormatError
from jpr.io.checksums import read_record

JOINT_JSON = "joint.json"
KIND, FORMAT = "joint", 1
ENCODER_FILE, STEP_FILE = "encoder.onnx", "step.onnx"
"""The files of a model that runs without torch."""
EXACT_INPUT = "exact"
"""The flag that makes an int8 encoder compute in float32."""


def read_joint_json(folder: Path) -> dict[str, object]:
    """Read the `joint.json` of a folder."""
    file = folder / JOINT_JSON
    if not folder.is_dir():
        raise FormatError(folder, 0, "is not a folder; give that of a joint model")
    if not file.exists():
        problem = f"is not a joint model: {JOINT_JSON} is missing; is it an encoder?"
        raise FormatError(folder, 0, problem)
    return read_model_json(file, KIND, FORMAT)


def read_model_json(file: Path, kind: str, format: int) -> dict[str, object]:
    """Read the description of a model, which must be of this kind and format."""
    about = read_record(file)
    if about.get("kind") != kind or about.get("format") != format:
        found = f"kind {about.get('kind')!r}, format {about.get('format')!r}"
        raise FormatError(file, 0, f"has {found}; this version of jpr reads {kind}, {format}")
    return about


def is_bert_pointer(about: Mapping[str, object]) -> bool:
    """Whether a model is a BERT with a pointer head: these can be read back from ONNX."""
    shape = about.get("encoder_config")
    kind = shape.get("model_type", "bert") if isinstance(shape, dict) else None
    return (about.get("encoder"), kind, about.get("head")) == ("bert", "bert", "pointer")
