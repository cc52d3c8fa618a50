"""Commands from dataclasses: the fields of `run(options)`'s dataclass are its arguments.

The docstring of `run` is the command's help; its `Example:` paragraphs are printed last. Arguments
that several commands share are annotated types; `argument` and `option` declare the others.
"""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, TypeVar, dataclass_transform, get_args, get_type_hints

import typer

T = TypeVar("T")


@dataclass_transform(kw_only_default=True, frozen_default=True)
def arguments(cls: type[T]) -> type[T]:
    """Make a dataclass of a command's arguments."""
    return dataclass(frozen=True, kw_only=True)(cls)


def argument(help: str, metavar: str | None = None, default: object = ...) -> Any:  # noqa: ANN401  a field
    """Declare a positional argument; it is required unless it has a default."""
    return _field(typer.Argument(help=help, metavar=metavar, show_default=False), default)


def option(panel: str, help: str, *names: str, default: object = None, **more: Any) -> Any:  # noqa: ANN401  a field
    """Declare an option; the panels of the help are Input, Output, Model and Scale."""
    return _field(_option(panel, help, *names, **more), default)


def flag(panel: str, help: str) -> Any:  # noqa: ANN401  a field
    """Declare an option without a value."""
    return _field(_option(panel, help), False)


def _option(panel: str, help: str, *names: str, **more: Any) -> Any:  # noqa: ANN401  typer's own
    return typer.Option(*names, help=help, rich_help_panel=panel, **more)


def _field(declared: object, default: object) -> Any:  # noqa: ANN401  a field
    return field(default=MISSING if default is ... else default, metadata={"typer": declared})


Docs = Annotated[Path | None, _option("Input", "Folder of documents to search.", metavar="FOLDER")]
IndexFolder = Annotated[Path | None, _option("Input", "Index made by `jpr index`.", metavar="DIR")]
Questions = Annotated[
    Path | None, _option("Input", "File of questions, if the run lacks them.", "--questions", "-q")
]
Corpus = Annotated[Path | None, _option("Input", "Passages, if the run holds only passage ids.")]
Origin = Annotated[
    str | None,
    _option("Input", "Format to read.", "--from", metavar="FORMAT", show_default="detected"),
]
Split = Annotated[
    str | None,
    _option(
        "Input",
        "Split texts into passages: words:100, or wordpieces:288 (the paper's), optionally with "
        "a tokenizer: wordpieces:288:tokenizer.json.",
        metavar="UNIT:SIZE",
    ),
]
Strict = Annotated[
    bool, _option("Input", "Do not count a lone numeral or stop word as an answer found.")
]
Out = Annotated[Path, _option("Output", "File to write.", "--out", "-o")]
Json = Annotated[bool, _option("Output", "Print one JSON object.")]
Settings = Annotated[
    list[str] | None,
    _option(
        "Model",
        "Change a setting (see above; `--set help` lists the keys); repeatable.",
        metavar="KEY=VALUE",
    ),
]
Workers = Annotated[
    str | None,
    _option(
        "Scale",
        "Number of local processes, or address of a Dask scheduler (tcp://node1:8786).",
        metavar="N|ADDRESS",
    ),
]


def command(app: typer.Typer, run: Callable[[T], None]) -> None:
    """Register `run(options)` under the name of its module."""
    options: Any = get_type_hints(run)["options"]
    types = get_type_hints(options, include_extras=True)
    parameters = []
    for one in fields(options):
        declared = one.metadata.get("typer")
        annotation = Annotated[types[one.name], declared] if declared else types[one.name]
        kind, declared = get_args(annotation)
        if kind is bool:
            declared.param_decls = (f"--{one.name}",)  # without --no-NAME
            declared.metavar = ""
        elif isinstance(declared, typer.models.ArgumentInfo):
            declared.metavar = declared.metavar or one.name.upper()
        default = inspect.Parameter.empty if one.default is MISSING else one.default
        parameters.append(
            inspect.Parameter(
                one.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
            )
        )

    def callback(**values: Any) -> None:  # noqa: ANN401  the fields of `options`
        run(options(**values))

    callback.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typer reads it
    callback.__annotations__ = {one.name: one.annotation for one in parameters}
    summary, *rest = inspect.cleandoc(run.__doc__ or "").split("\n\n")
    examples = [part for part in rest if part.startswith("Example: ")]
    help = "\n\n".join([summary, *(part for part in rest if part not in examples)])
    name = run.__module__.rpartition(".")[2]
    app.command(name, help=help, epilog="\n\n".join(examples))(callback)
