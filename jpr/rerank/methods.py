"""The rerankers that have a name, `jpr rerank --method NAME`: one line each, loaded when used.

A method is a module with `make(settings, options)`, which returns a `KeyedReranker`, and, where it
has settings of its own, a frozen dataclass of them, which `--set KEY=VALUE` fills.
docs/extending.md shows how to add one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from jpr.errors import ConfigError
from jpr.io.settings import parse_settings
from jpr.stages import KeyedReranker


@dataclass(frozen=True, slots=True)
class NoSettings:
    """The settings of a method that has none."""


@dataclass(frozen=True, slots=True)
class RerankOptions:
    """Everything that determines a reranker; a worker opens the same one from it."""

    method: str
    settings: Any = NoSettings()
    """The method's own, as `Method.settings` returns them."""
    model: Path | None = None
    """Folder of its weights; None is the bundled model."""
    auto_k: bool = False
    """joint: the model decides how many passages are enough."""
    threads: int = 0
    """For ONNX; 0 is one per core."""

    def for_worker(self) -> "RerankOptions":
        """Return the same for a worker process: absolute paths, one thread."""
        values = {one.name: getattr(self.settings, one.name) for one in fields(self.settings)}
        paths = {name: v.resolve() for name, v in values.items() if isinstance(v, Path)}
        settings = replace(self.settings, **paths)
        model = self.model and self.model.resolve()
        return replace(self, settings=settings, model=model, threads=1)


@dataclass(frozen=True, slots=True)
class Method:
    """A way to choose passages."""

    module: str
    settings_class: str = ""
    """Name of the module's dataclass of settings; empty if it has none."""
    takes_model: bool = False
    """Whether `--model` names its weights."""
    decodes: bool = False
    """Whether it searches with a joint model: `--trees` and `-k auto` are for it alone."""
    needs_texts: bool = True
    needs_answers: bool = False

    def settings(self, pairs: Sequence[str] = ()) -> Any:  # noqa: ANN401  # the method's own class
        """Return the method's settings, with these `KEY=VALUE` pairs set."""
        module = import_module(self.module)
        cls = getattr(module, self.settings_class) if self.settings_class else NoSettings
        return parse_settings(cls, pairs)


JOINT, FIRST_STAGE, ORACLE = "joint", "first-stage", "oracle"
_DIVERSIFY = Method("jpr.rerank.diversify", "DiversifySettings")
METHODS = {
    JOINT: Method("jpr.rerank.joint", "JointSettings", takes_model=True, decodes=True),
    "pointwise": Method("jpr.rerank.pointwise", takes_model=True),
    **dict.fromkeys(("mmr", "dpp", "msd", "cover", "ssd"), _DIVERSIFY),
    ORACLE: Method("jpr.rerank.oracle", needs_answers=True),
    FIRST_STAGE: Method("jpr.rerank.order", needs_texts=False),
}


def make_reranker(options: RerankOptions) -> KeyedReranker:
    """Return the reranker that the options describe."""
    if options.method not in METHODS:
        raise ConfigError(f"method {options.method!r}; choose one of {', '.join(METHODS)}")
    module = import_module(METHODS[options.method].module)
    made: KeyedReranker = module.make(options.settings, options)
    return made
