"""`jpr formats`: what can be read and written."""

from typing import Annotated

import typer

from jpr.cli import screen

NAME = "formats"
HELP = """List the file formats that can be read and written.

Compressed input (gzip, xz, bzip2, zstd) is read as it is, whatever the file is called.

Example: jpr formats
"""


def run(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Print a row per format."""
    from jpr.cli.kinds import KINDS

    listed = [(kind, format) for kind in KINDS for format in kind.formats]
    if as_json:
        rows = [
            {"format": f.name, "kind": k.name, "about": f.about, "write": f.write is not None}
            for k, f in listed
        ]
        screen.say_json({"formats": rows})
        return
    screen.table(
        ("format", "kind", "what it is", "written"),
        [(f.name, k.name, f.about, "yes" if f.write else "") for k, f in listed],
        numbers_from=4,
        folds=2,
    )
