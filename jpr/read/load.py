"""Readers by the folder of their model or the address of their endpoint."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path

from jpr.errors import needs_extra
from jpr.read.spans import MAX_ANSWERS, SpanReader
from jpr.rerank.methods import NoSettings
from jpr.stages import KeyedReader


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
    max_answers: int = MAX_ANSWERS
    min_probability: float | None = None
    choose: int | None = None  # passages to choose jointly before reading
    device: str = "auto"
    threads: int = 0  # for ONNX; 0 is one per core

    def for_worker(self) -> "ReadOptions":
        """Return the same for a worker process: an absolute path, one thread."""
        path = str(Path(self.model).resolve()) if self.model and self.llm is None else self.model
        return replace(self, model=path, threads=1)


def open_reader(options: ReadOptions) -> KeyedReader:
    """Return the reader that the options describe."""
    model, limit, device = options.model, options.max_answers, options.device
    match options.settings:
        case LlmSettings() as settings:
            from jpr.read.llm import LlmReader

            return LlmReader(options.llm or "", model, max_answers=limit, **asdict(settings))
        case FusionSettings(width, stop_penalty, any_text):
            with needs_extra(f"{model}: a T5 that generates answers", "train"):
                from jpr.read.generate import FusionReader

            return FusionReader.load(
                model,
                is_grounded=not any_text,
                width=width,
                stop_penalty=stop_penalty,
                max_answers=limit,
                device=device,
            )
    reading = options.min_probability, limit, options.choose
    return SpanReader.load(model or None, *reading, device=device, threads=options.threads)


def load_reader(folder: str | Path | None = None, *, device: str = "auto") -> KeyedReader:
    """Open a reader's folder, or the bundled model."""
    model = "" if folder is None else str(folder)
    settings = settings_class(model, None)()
    return open_reader(ReadOptions(model, None, settings, device=device))
