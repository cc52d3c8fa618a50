"""Commands from dataclasses: the fields of `run(options)`'s dataclass are its arguments.

The docstring of `run` is the command's help; its `Example:` lines are printed last. A field
`token_file` is the option `--token-file`, `k` is `-k`, and `from_` is `--from`.
"""

import inspect
from collections.abc import Callable, Collection
from copy import copy
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, dataclass_transform, get_args, get_origin, get_type_hints

import typer

from jpr.errors import ConfigError


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Arguments:
    """The arguments of a command: every subclass is a frozen dataclass, which checks itself."""

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, kw_only=True)(cls)

    def reject(self, why: str, *names: str) -> None:
        """Reject those of these arguments that are given, because they would have no effect."""
        given = self.given()
        labels = [name if name == "runs" else label(name) for name in names if name in given]
        if labels:
            raise ConfigError(f"{', '.join(labels)}: {why}")

    def given(self) -> set[str]:
        """Return the names of the arguments that do not have their default."""
        declared = fields(self)  # type: ignore[arg-type]  # of a subclass
        return {one.name for one in declared if getattr(self, one.name) != one.default}

    def exclude(self, name: str, other: str) -> None:
        """Reject two arguments that exclude each other."""
        if {name, other} <= self.given():
            problem = f"{label(name)} and {label(other)} exclude each other"
            raise ConfigError(f"{problem}; give one of them")

    def check_choice(self, name: str, choices: Collection[str]) -> None:
        """Reject a value that is not among the choices."""
        given = getattr(self, name)
        if given is not None and given not in choices:
            raise ConfigError(f"{label(name)} {given}: choose one of {', '.join(choices)}")

    def check_positive(self, name: str) -> None:
        """Reject a number below 1."""
        if getattr(self, name) < 1:
            raise ConfigError(f"{label(name)} {getattr(self, name)}: must be at least 1")

    def check_separate(self, written: str, *others: str) -> None:
        """Reject an output file that is also an input, or another output."""
        out: Path | None = getattr(self, written)
        for path in (getattr(self, name) for name in others):
            if out is None or path is None:
                continue
            is_same = out.resolve() == path.resolve()
            if out.exists() and path.exists():  # a terminal may be both input and output
                is_same = out.is_file() and out.samefile(path)
            if is_same:
                raise ConfigError(
                    f"{out} is also another file of this command; choose another name"
                )


def label(name: str) -> str:
    """Return the option of an argument as it is typed: `-k`, `--token-file`, `--from`."""
    dashed = name.rstrip("_").replace("_", "-")
    return f"-{dashed}" if len(dashed) == 1 else f"--{dashed}"


def argument(help: str, metavar: str | None = None, default: object = ...) -> Any:  # noqa: ANN401  a field
    """Declare a positional argument; it is required unless it has a default."""
    return _field(typer.Argument(help=help, metavar=metavar, show_default=False), default)


def option(panel: str, help: str, *short: str, default: object = None, **more: Any) -> Any:  # noqa: ANN401  a field
    """Declare an option; the panels of the help are Input, Output, Model and Scale."""
    return _field(typer.Option(*short, help=help, rich_help_panel=panel, **more), default)


def _field(declared: object, default: object) -> Any:  # noqa: ANN401  a field
    return field(default=MISSING if default is ... else default, metadata={"typer": declared})


Docs = Annotated[Path | None, option("Input", "Folder of documents to search.", metavar="FOLDER")]
IndexFolder = Annotated[Path | None, option("Input", "Index made by `jpr index`.", metavar="DIR")]
Questions = Annotated[
    Path | None, option("Input", "File of questions, if the run lacks them.", "-q")
]
Corpus = Annotated[Path | None, option("Input", "Passages, if the run holds only passage ids.")]
Origin = Annotated[
    str | None, option("Input", "Format to read.", metavar="FORMAT", show_default="detected")
]
_SPLIT = (
    "Split texts into passages: words:100, or wordpieces:288 (the paper's), optionally with a "
    "tokenizer: wordpieces:288:tokenizer.json."
)
Split = Annotated[str | None, option("Input", _SPLIT, metavar="UNIT:SIZE")]
Strict = Annotated[bool, option("Input", "Do not count a lone numeral or stop word as an answer.")]
Out = Annotated[Path, option("Output", "File to write.", "-o")]
Json = Annotated[bool, option("Output", "Print one JSON object.")]
_SETTING = "Change a setting (see above; `--set help` lists the keys); repeatable."
Settings = Annotated[list[str] | None, option("Model", _SETTING, metavar="KEY=VALUE")]
_WORKERS = (
    "Number of local processes, or address of a Dask scheduler (tcp://node1:8786), whose workers "
    "must find models and indexes under the same paths. The result is the same."
)
Workers = Annotated[str | None, option("Scale", _WORKERS, metavar="N|ADDRESS")]


def command(app: typer.Typer, run: Callable[[Any], None]) -> None:
    """Register `run(options)` under the name of its module."""
    options: Any = get_type_hints(run)["options"]
    types = get_type_hints(options, include_extras=True)
    annotations = {one.name: _annotated(one, types[one.name]) for one in fields(options)}
    parameters = inspect.signature(options).parameters.values()

    def callback(**values: Any) -> None:  # noqa: ANN401  the fields of `options`
        run(options(**values))

    signature = [one.replace(annotation=annotations[one.name]) for one in parameters]
    callback.__signature__ = inspect.Signature(signature)  # type: ignore[attr-defined]  # typer reads it
    callback.__annotations__ = annotations
    lines = inspect.cleandoc(run.__doc__ or "").splitlines()
    examples = [line for line in lines if line.startswith("Example: ")]
    help = "\n".join(line for line in lines if line not in examples)
    name = run.__module__.rpartition(".")[2]
    app.command(name, help=help, epilog="\n\n".join(examples))(callback)


def _annotated(argument: Field[Any], hint: Any) -> Any:  # noqa: ANN401  types
    """Return the type of an argument with its declaration for typer."""
    kind, *shared = get_args(hint) if get_origin(hint) is Annotated else [hint]
    declared = copy((shared[0] if shared else argument).metadata["typer"])
    if isinstance(declared, typer.models.ArgumentInfo):
        declared.metavar = declared.metavar or argument.name.upper()
    else:
        declared.param_decls = (label(argument.name), *declared.param_decls)  # no --no-NAME
        declared.metavar = "" if kind is bool else declared.metavar
    return Annotated[kind, declared]
