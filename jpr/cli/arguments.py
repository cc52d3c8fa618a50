"""Commands from dataclasses: the fields of `run(options)`'s dataclass are its arguments.

The docstring of `run` is the command's help; its `Example:` paragraphs are printed last.
"""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

T = TypeVar("T")


def argument(help: str, metavar: str | None = None) -> Any:  # noqa: ANN401  typer's own
    """Declare a positional argument."""
    return typer.Argument(help=help, metavar=metavar, show_default=False)


def option(panel: str, help: str, *names: str, **settings: Any) -> Any:  # noqa: ANN401  typer's own
    """Declare an option; the panels of the help are Input, Output, Model and Scale."""
    return typer.Option(*names, help=help, rich_help_panel=panel, **settings)


Docs = Annotated[
    Path | None,
    option("Input", "Folder of documents to search.", "--docs", metavar="FOLDER"),
]
IndexFolder = Annotated[
    Path | None, option("Input", "Index made by `jpr index`.", "--index", metavar="DIR")
]
Questions = Annotated[
    Path | None, option("Input", "File of questions, if the run lacks them.", "--questions", "-q")
]
Corpus = Annotated[
    Path | None, option("Input", "Passages, if the run holds only passage ids.", "--corpus")
]
Split = Annotated[
    str | None,
    option(
        "Input",
        "Split texts into passages: words:100, or wordpieces:288 (the paper's), optionally with "
        "a tokenizer: wordpieces:288:tokenizer.json.",
        metavar="UNIT:SIZE",
    ),
]
Strict = Annotated[
    bool,
    option("Input", "Do not count a lone numeral or stop word as an answer found.", "--strict"),
]
Out = Annotated[Path, option("Output", "File to write.", "--out", "-o")]
Json = Annotated[bool, option("Output", "Print one JSON object.", "--json")]
Settings = Annotated[
    list[str] | None,
    option("Model", "Change a setting (see above); repeatable.", "--set", metavar="KEY=VALUE"),
]
Workers = Annotated[
    str | None,
    option(
        "Scale",
        "Number of local processes, or address of a Dask scheduler (tcp://node1:8786).",
        "--workers",
        metavar="N|ADDRESS",
    ),
]


def command(app: typer.Typer, run: Callable[[T], None]) -> None:
    """Register `run(options)` under the name of its module."""
    options: type[T] = get_type_hints(run)["options"]
    summary, *rest = inspect.cleandoc(run.__doc__ or "").split("\n\n")
    examples = [part for part in rest if part.startswith("Example: ")]
    body = [part for part in rest if part not in examples]

    def callback(**values: Any) -> None:  # noqa: ANN401  the fields of `options`
        run(options(**values))

    signature = inspect.signature(options)
    callback.__signature__ = signature  # type: ignore[attr-defined]  # typer reads it
    callback.__annotations__ = {
        name: parameter.annotation for name, parameter in signature.parameters.items()
    }
    name = run.__module__.rpartition(".")[2]
    help = "\n\n".join([summary, *body])
    app.command(name, help=help, epilog="\n\n".join(examples))(callback)
