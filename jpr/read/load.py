"""Readers by the folder of their model or the address of their endpoint."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from jpr.errors import needs_extra
from jpr.read.spans import SpanReader
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


def settings_class(model: str | None, llm: str | None) -> type[ReaderSettings]:
    """Return the settings of the reader of an endpoint, a T5 that generates, or a joint model."""
    if llm is not None:
        return LlmSettings
    return FusionSettings if model and Path(model, "reader.json").exists() else NoSettings


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Everything that determines a reader; a worker opens the same one from it."""

    model: str  # folder of a model, empty for the bundled one; with `llm`, the model's name there
    llm: str | None  # base URL of an OpenAI-compatible endpoint
    settings: ReaderSettings
    max_answers: int
    min_ratio: float
    choose: int | None  # passages to choose jointly before reading
    threads: int = 0  # for ONNX; 0 is one per core

    def for_worker(self) -> "ReadOptions":
        """Return the same for a worker process: an absolute path, one thread."""
        path = str(Path(self.model).resolve()) if self.model and self.llm is None else self.model
        return replace(self, model=path, threads=1)


def open_reader(options: ReadOptions) -> KeyedReader:
    """Return the reader that the options describe."""
    settings, limit = options.settings, options.max_answers
    if isinstance(settings, LlmSettings):
        from jpr.read.llm import LlmReader

        return LlmReader(options.llm or "", options.model, max_answers=limit, **asdict(settings))
    if isinstance(settings, FusionSettings):
        return _fusion_reader(options.model).load(
            options.model,
            is_grounded=not settings.any_text,
            width=settings.beams,
            stop_penalty=settings.stop_penalty,
            max_answers=limit,
        )
    return SpanReader.load(
        options.model or None, options.min_ratio, limit, options.choose, threads=options.threads
    )


def load_reader(
    folder: str | Path | None = None, *, device: str = "auto"
) -> "SpanReader | FusionReader":
    """Open a reader's folder, or the bundled model."""
    if folder is not None and settings_class(str(folder), None) is FusionSettings:
        return _fusion_reader(folder).load(folder, device=device)
    return SpanReader.load(folder, device=device)


def _fusion_reader(folder: str | Path) -> "type[FusionReader]":
    with needs_extra(f"{folder}: a T5 that generates answers", "train"):
        from jpr.read.generate import FusionReader

    return FusionReader
