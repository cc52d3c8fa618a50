"""Readers by their folders."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jpr.errors import MissingExtraError
from jpr.read.spans import SpanReader

if TYPE_CHECKING:
    from jpr.read.fusion import FusionReader


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
