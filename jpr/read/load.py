"""Readers by their folders."""

from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jpr.errors import MissingExtraError
from jpr.read.spans import LEAST, MOST, ChoosingReader, SpanReader
from jpr.rerank.joint import JointReranker

if TYPE_CHECKING:
    from jpr.read.batch import KeyedReader
    from jpr.read.fusion import FusionReader


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a user says of a reader that is a model in a folder."""

    model: Path | None = None
    most: int = MOST
    least: float = LEAST
    choose: int | None = None
    """Passages to choose jointly, and read with the others."""
    any_text: bool = False
    """A T5: whether it may write what no passage contains; its own beams and penalty are None."""
    beams: int | None = None
    stop_penalty: float | None = None
    threads: int = 0
    """For ONNX; 0 is one per core."""

    def elsewhere(self) -> "Wanted":
        """Return the same for a worker: a path from anywhere, one thread."""
        return replace(self, model=self.model and self.model.resolve(), threads=1)


def open_reader(wanted: Wanted) -> "tuple[KeyedReader, str]":
    """Return a reader and its key."""
    reader: KeyedReader
    if wanted.model is not None and is_fusion(wanted.model):
        how = {"width": wanted.beams, "stop_penalty": wanted.stop_penalty, "most": wanted.most}
        reader = load_fusion(wanted.model, is_grounded=not wanted.any_text, **how)
        return reader, reader.key
    joint = JointReranker.load(wanted.model, threads=wanted.threads)
    spans = SpanReader(joint, wanted.least, wanted.most)
    reader = ChoosingReader(joint, spans, wanted.choose) if wanted.choose else spans
    return reader, reader.key


def load_reader(
    folder: str | Path | None = None, *, device: str = "auto"
) -> "SpanReader | FusionReader":
    """Open a reader's folder, or the model that comes with the package."""
    if folder is None or not is_fusion(Path(folder)):
        return SpanReader.load(folder, device=device)
    return load_fusion(folder, device=device)


def is_fusion(folder: Path) -> bool:
    """Tell whether a folder holds a T5 that writes, not a joint model that reads."""
    return (folder / "reader.json").exists()


def load_fusion(folder: str | Path, **settings: Any) -> "FusionReader":  # noqa: ANN401  # as they are
    """Open the folder of a T5 that writes, with the settings of `FusionReader.load`."""
    if not find_spec("torch"):
        raise MissingExtraError(f"{folder}: a T5 that writes answers", "train")
    from jpr.read.fusion import FusionReader

    return FusionReader.load(folder, **settings)
