"""The command line: one file per command, which imports what it needs only when it runs.

Exit codes: 0 done; 2 the user's mistake, told in one sentence; 1 a bug of ours, with its traceback.
"""

import os
import sys

import typer

from jpr.cli import convert, evaluate, formats, group, report, validate
from jpr.errors import JprError

app = typer.Typer(
    name="jpr",
    help="Multi-answer retrieval: find the k passages that together cover every distinct answer.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for command in (evaluate, convert, validate, group, formats, report):
    app.command(command.NAME, help=command.HELP)(command.run)


def main() -> None:
    """Run the command line and turn what a user can cause into one sentence."""
    try:
        app()
    except JprError as error:
        sys.stderr.write(f"jpr: {error}\n")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output, say `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
