"""The command line: one file per command, which imports what it needs only when it runs.

Exit codes: 0 done; 2 the user's mistake, told in one sentence; 1 a bug of ours, with its traceback;
130 interrupted.
"""

import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any, TextIO

import typer

import jpr
from jpr.cli import (
    ask,
    calibrate,
    convert,
    doctor,
    encode,
    evaluate,
    export,
    formats,
    index,
    pack,
    read,
    rerank,
    retrieve,
    screen,
    search,
    serve,
    train,
    validate,
)
from jpr.errors import JprError

app = typer.Typer(
    name="jpr",
    help="Multi-answer retrieval: find the k passages that together cover every distinct answer.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for command in (
    ask,
    serve,
    index,
    encode,
    search,
    retrieve,
    rerank,
    read,
    calibrate,
    export,
    evaluate,
    pack,
    train,
    convert,
    validate,
    formats,
    doctor,
):
    app.command(command.NAME, help=command.HELP)(command.run)

_UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""What is wrong with the arguments themselves; typer has no public name for it."""


def _tell_version(wanted: bool) -> None:
    if wanted:
        screen.say(f"jpr {jpr.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_tell_version, is_eager=True),
    ] = False,
) -> None:
    """Take the options that stand before a command."""


def main() -> None:
    """Run the command line and turn what a user can cause into one sentence."""
    _prepare_streams()
    sys.exit(_exit_code(sys.argv[1:] or ["--help"]))


def _exit_code(arguments: Sequence[str]) -> int:
    try:
        _run(arguments)
    except JprError as error:
        screen.note(str(error))
    except _UsageError as error:
        screen.note(_usage(error))
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of our output, say `head`, has seen enough
        _drop_output()
        return 0
    except OSError as error:
        if error.filename is not None:  # no matter of our output: files are opened with care
            raise
        _drop_output()
        screen.note(f"the output cannot be written: {error.strerror}")
    else:
        return 0
    return 2


def _run(arguments: Sequence[str]) -> None:
    """Run without click's own `main`, which makes an error of a reader that has seen enough."""
    group = typer.main.get_command(app)
    with suppress(typer.Exit), group.make_context("jpr", list(arguments)) as context:
        group.invoke(context)
    sys.stdout.flush()


def _usage(error: Any) -> str:  # noqa: ANN401  # it has no public name
    path = error.ctx.command_path if error.ctx else "jpr"
    told = " ".join(error.format_message().split()).rstrip(".")
    if told.startswith("Got unexpected extra argument"):
        told += "; put a question, or a name with spaces, in quotes"
    return f"{told}; see {path} --help"


def _prepare_streams() -> None:
    """Let no character stop the output, nor a stream that was closed before we began."""
    # Written to, a closed standard output must fail: what stands for it is open for reading only.
    sys.stdout = sys.stdout or _null(os.O_RDONLY)
    sys.stderr = sys.stderr or _null(os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _null(mode: int) -> TextIO:
    return open(os.open(os.devnull, mode), "w", encoding="utf-8")  # noqa: PTH123  a descriptor


def _drop_output() -> None:
    """Send what is still to be written nowhere, so that it does not fail again at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
