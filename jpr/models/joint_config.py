"""`joint.json`, which describes a joint model's folder; without torch."""

from collections.abc import Mapping
from pathlib import Path

from jpr.errors import FormatError
from jpr.io.checksums import read_record

JOINT_JSON = "joint.json"
KIND, FORMAT = "joint", 1
ENCODER_FILE, STEP_FILE = "encoder.onnx", "step.onnx"
"""The files of a model that runs without torch."""
SPANS_FILE = "spans.npz"  # its span head, if it has one
EXACT_INPUT = "exact"  # the flag that makes an int8 encoder compute in float32


def exported_files(folder: Path) -> list[Path]:
    """Return the files with the weights of a model that runs without torch."""
    spans = folder / SPANS_FILE
    return [folder / ENCODER_FILE, folder / STEP_FILE, *([spans] if spans.exists() else [])]


def read_joint_json(folder: Path) -> tuple[dict[str, object], dict[Path, str]]:
    """Read a folder's `joint.json`, and the hashes it holds of the files beside it."""
    file = folder / JOINT_JSON
    if not folder.is_dir():
        raise FormatError(folder, 0, "is not a folder; give the folder of a joint model")
    if not file.exists():
        raise FormatError(
            folder, 0, f"is not a joint model: {JOINT_JSON} is missing; is it an encoder?"
        )
    return read_model_json(file, KIND, FORMAT)


def read_model_json(
    file: Path, kind: str, format: int
) -> tuple[dict[str, object], dict[Path, str]]:
    """Read a model's record and its hashes; the record must be of this kind and format."""
    about, sums = read_record(file)
    if about.get("kind") != kind or about.get("format") != format:
        found = f"kind {about.get('kind')!r}, format {about.get('format')!r}"
        raise FormatError(file, 0, f"is of {found}; this program reads {kind}, {format}")
    return about, sums


def is_bert_pointer(about: Mapping[str, object]) -> bool:
    """Whether a model is a BERT with a pointer head: these can be read back from ONNX."""
    shape = about.get("encoder_config")
    kind = shape.get("model_type", "bert") if isinstance(shape, dict) else None
    return (about.get("encoder"), kind, about.get("head")) == ("bert", "bert", "pointer")
