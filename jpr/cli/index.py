"""`jpr index`: a corpus into an index."""

from pathlib import Path
from typing import Annotated

import typer

from jpr.cli import screen
from jpr.cli.convert import Split, TokenizerFile, split_passages

NAME = "index"
HELP = """Index a corpus, so that `jpr search` and `jpr retrieve` find passages in it.

Any format of passages will do (`jpr formats`). An index that is already in the folder stays in use
until the new one is whole; if this command is killed, nothing is lost.

Example: jpr index psgs_w100.tsv.gz --out wiki

Example: jpr index articles/ --out notes --split words:100
"""


def run(
    corpus: Annotated[Path, typer.Argument(help="File or folder of passages.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the index.")],
    split: Split = None,
    tokenizer: TokenizerFile = None,
) -> None:
    """Read, cut, index, publish."""
    from jpr.corpus import read_passages
    from jpr.retrieve.index import build_index

    passages = split_passages(read_passages(corpus), split, tokenizer)
    with screen.progress("indexing passages", None) as progress:
        count = build_index(passages, out, source=corpus.name, progress=progress)
    screen.note(f"{count:,} passages are indexed in {out}")
