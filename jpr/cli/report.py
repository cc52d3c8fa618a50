"""`jpr report`: the published numbers."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from jpr.cli import screen
from jpr.errors import ConfigError

NAME = "report"
HELP = """Print every published number, from the records in results/.

Example: jpr report --json

Example: jpr report > docs/results.md

Example: jpr report --summary
"""


def run(
    folder: Annotated[Path, typer.Option("--results", help="Folder of records.")] = Path("results"),
    as_json: Annotated[bool, typer.Option("--json", help="Print the records as a list.")] = False,
    brief: Annotated[
        bool, typer.Option("--summary", help="Print the README's table: MRecall@5 of rerankers.")
    ] = False,
) -> None:
    """Print the records, or what is made from them."""
    from jpr.report import load_records, results_page, summary

    if not folder.is_dir():
        raise ConfigError(f"{folder} is no folder; run this in a checkout or say --results FOLDER")
    if as_json and brief:
        raise ConfigError("--json and --summary are two things to print; ask for one")
    if as_json:
        screen.say_json([asdict(record) for record in load_records(folder)])
    elif brief:
        screen.say(summary(folder))
    else:
        screen.say(results_page(folder).rstrip("\n"))
