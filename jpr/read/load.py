"""Readers by the folder of their model or the address of their endpoint."""

from dataclasses import asdict, dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jpr.errors import MissingExtraError
from jpr.read.spans import MAX_ANSWERS, MIN_RATIO, ChoosingReader, SpanReader
from jpr.rerank.methods import NoSettings
from jpr.stages import KeyedReader

if TYPE_CHECKING:
    from jpr.read.generate import FusionReader


@dataclass(frozen=True, slots=True)
class FusionSettings:
    """The settings of a T5 that generates answers."""

    beams: int | None = None
    """Sequences to search with; None is the model's own."""
    stop_penalty: float | None = None
    """Higher values give more answers; None is the model's own."""
    any_text: bool = False
    """Whether to give answers that no passage contains."""


@dataclass(frozen=True, slots=True)
class LlmSettings:
    """The settings of a language model behind an endpoint."""

    timeout: float = 60.0
    """Seconds for a question."""
    skip: tuple[str, ...] = ()
    """Ids of questions to leave without answers."""
    any_text: bool = False
    """Whether to give answers that no passage contains."""


ReaderSettings = NoSettings | FusionSettings | LlmSettings


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Everything that determines a reader; a worker opens the same one from it."""

    model: str = ""
    """Folder of a model, empty for the bundled one; with `llm`, the model's name there."""
    llm: str | None = None
    """Base URL of an OpenAI-compatible endpoint."""
    settings: ReaderSettings = field(default_factory=NoSettings)
    max_answers: int = MAX_ANSWERS
    min_ratio: float = MIN_RATIO
    choose: int | None = None
    """Passages to choose jointly before reading."""
    threads: int = 0
    """For ONNX; 0 is one per core."""

    @property
    def settings_class(self) -> type[ReaderSettings]:
        """The settings that this kind of reader takes."""
        if self.llm is not None:
            return LlmSettings
        return FusionSettings if self.model and is_fusion(Path(self.model)) else NoSettings

    def for_worker(self) -> "ReadOptions":
        """Return the same for a worker process: an absolute path, one thread."""
        path = str(Path(self.model).resolve()) if self.model and self.llm is None else self.model
        return replace(self, model=path, threads=1)


def open_reader(options: ReadOptions) -> tuple[KeyedReader, str]:
    """Return a reader and its key."""
    reader = _open(options)
    return reader, reader.key


def _open(options: ReadOptions) -> KeyedReader:
    settings, limit = options.settings, options.max_answers
    if isinstance(settings, LlmSettings):
        from jpr.read.llm import LlmReader

        return LlmReader(options.llm or "", options.model, max_answers=limit, **asdict(settings))
    if isinstance(settings, FusionSettings):
        return _load_fusion(
            options.model,
            is_grounded=not settings.any_text,
            width=settings.beams,
            stop_penalty=settings.stop_penalty,
            max_answers=limit,
        )
    model = options.model or None
    spans = SpanReader.load(model, options.min_ratio, limit, threads=options.threads)
    return ChoosingReader(spans, options.choose) if options.choose else spans


def load_reader(
    folder: str | Path | None = None, *, device: str = "auto"
) -> "SpanReader | FusionReader":
    """Open a reader's folder, or the bundled model."""
    if folder is None or not is_fusion(Path(folder)):
        return SpanReader.load(folder, device=device)
    return _load_fusion(folder, device=device)


def is_fusion(folder: Path) -> bool:
    """Return whether a folder holds a T5 that generates answers, not a joint model."""
    return (folder / "reader.json").exists()


def _load_fusion(folder: str | Path, **settings: Any) -> "FusionReader":  # noqa: ANN401  # of its `load`
    if not find_spec("torch"):
        raise MissingExtraError(f"{folder}: a T5 that generates answers", "train")
    from jpr.read.generate import FusionReader

    return FusionReader.load(folder, **settings)
