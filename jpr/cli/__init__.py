"""The command line: one module per command, which imports heavy libraries only when it runs.

Exit codes: 0 success; 2 an error that you can fix (input, file, server), explained in one
sentence; 1 a bug, with its traceback; 130 interrupted.
"""

import io
import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Annotated, Any, TextIO

import typer

import jpr
from jpr.cli import output
from jpr.cli.arguments import command
from jpr.errors import JprError

_COMMANDS = (
    "ask serve index retrieve rerank read evaluate convert validate train pack export doctor"
)
app = typer.Typer(
    name="jpr",
    help="Multi-answer retrieval: find the k passages that together cover every distinct answer.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
for _name in _COMMANDS.split():
    command(app, import_module(f"jpr.cli.{_name}").run)

_NOT_A_NUMBER = re.compile("Input should be a valid (integer|number), .*")
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""Invalid command-line arguments; typer has no public name for it."""


def _print_version(requested: bool) -> None:
    if requested:
        output.write(f"jpr {jpr.__version__}")
        raise typer.Exit


_VERSION = typer.Option(
    "--version", help="Print the version.", callback=_print_version, is_eager=True
)


@app.callback()
def _options(version: Annotated[bool, _VERSION] = False) -> None:
    """Take the options before a command."""


def main() -> None:
    """Run the command line; report a mistake of the user in one sentence."""
    _prepare_streams()
    sys.exit(_exit_code(sys.argv[1:] or ["--help"]))


def _exit_code(arguments: Sequence[str]) -> int:
    try:
        _run(arguments)
    except (JprError, MemoryError) as error:
        output.note(str(error) or "not enough memory; give it smaller files or a larger machine")
    except _UsageError as error:
        output.note(_usage(error))
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of the pipe is gone: `| head`
        _discard_output()
        return 0
    except OSError as error:
        if error.filename is not None:  # not about our output: that has no name
            raise
        _discard_output()
        output.note(f"cannot write the output: {error.strerror}")
    else:
        return 0
    return 2


def _run(arguments: Sequence[str]) -> None:
    """Run without click's `main`, which makes an error of a closed pipe."""
    group = typer.main.get_command(app)
    try:
        with suppress(typer.Exit), group.make_context("jpr", list(arguments)) as context:
            group.invoke(context)
    except SystemExit as error:
        if "--help" in arguments:  # rich exits when the help is piped and the reader is gone
            raise BrokenPipeError from error
        raise
    sys.stdout.flush()


def _usage(error: Any) -> str:  # noqa: ANN401  # it has no public name
    path = error.ctx.command_path if error.ctx else "jpr"
    message = " ".join(error.format_message().split()).rstrip(".")
    message = _NOT_A_NUMBER.sub(r"give a valid \1", message)
    if message.startswith("Got unexpected extra argument"):
        message += "; put quotes around a question or a name with spaces"
    return f"{message}{' See' if message.endswith('?') else '; see'} {path} --help"


def _prepare_streams() -> None:
    """Make output robust to characters the encoding lacks, and to streams closed at the start."""
    # Writing to a closed standard output must fail, so its stand-in is open for reading only.
    sys.stdout = sys.stdout or _null(os.O_RDONLY)
    sys.stderr = sys.stderr or _null(os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _null(mode: int) -> TextIO:
    return open(os.open(os.devnull, mode), "w", encoding="utf-8")  # noqa: PTH123  a descriptor


def _discard_output() -> None:
    """Redirect what is still buffered to nowhere, so that it does not fail again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
