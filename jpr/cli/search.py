"""`jpr search`: passages for one question."""

import json
from pathlib import Path
from typing import Annotated

import typer

from jpr.cli import screen
from jpr.errors import ConfigError

NAME = "search"
HELP = """Find the passages of an index that answer a question best, one by one (BM25).

Example: jpr search wiki "who plays mark on roseanne" -k 20
"""
_SHOWN = 10
_WIDTH = 100


def run(
    index: Annotated[Path, typer.Argument(help="Folder that `jpr index` made.")],
    question: Annotated[str, typer.Argument(help="What to look for.")],
    k: Annotated[int, typer.Option("-k", help="How many passages.")] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Search and print."""
    from jpr.retrieve.index import Bm25Retriever
    from jpr.types import Question

    if k < 1:
        raise ConfigError(f"-k {k}: ask for at least one passage")
    hits = Bm25Retriever(index).retrieve(Question("", question), k).hits
    if as_json:
        rows = [
            {"id": h.passage.id, "title": h.passage.title, "text": h.passage.text, "score": h.score}
            for h in hits
        ]
        screen.say(json.dumps({"question": question, "hits": rows}))
        return
    for rank, hit in enumerate(hits[:_SHOWN], start=1):
        screen.say(f"{rank:3}  {hit.score:6.2f}  {hit.passage.title}  [{hit.passage.id}]")
        screen.say(f"            {' '.join(hit.passage.text.split())[:_WIDTH]}")
    if len(hits) > _SHOWN:
        screen.note(f"{len(hits) - _SHOWN} more; --json prints all")
    if not hits:
        screen.note("no passage holds a word of the question")
