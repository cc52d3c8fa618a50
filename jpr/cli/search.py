"""`jpr search`: passages for one question."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jpr.cli import screen
from jpr.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jpr.stages import Encoder, Retriever

NAME = "search"
HELP = """Find the passages of an index that match a question. They are ranked one by one.

Example: jpr search wiki "who plays mark on roseanne" -k 20

Example: jpr search wiki "who won the cup" --retriever bm25 --where year=1998 --where year=2002
"""
_SHOWN = 10
_WIDTH = 100

IndexFolder = Annotated[Path, typer.Argument(help="Folder that `jpr index` made.")]
Kind = Annotated[
    str | None,
    typer.Option(
        "--retriever",
        "-r",
        help="bm25, dense or hybrid; by default hybrid where the index has vectors, else bm25.",
    ),
]
Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        help="Only passages with this title or metadata: field=value. The same field again "
        "accepts another value; other fields must agree too.",
    ),
]
EncoderFolder = Annotated[
    Path | None,
    typer.Option("--encoder", help="Where the encoder of the index is, if it has moved."),
]
Distinct = Annotated[
    bool, typer.Option("--distinct", help="Leave out passages nearly identical to a better one.")
]


def run(
    index: IndexFolder,
    question: Annotated[str, typer.Argument(help="What to look for.")],
    k: Annotated[int, typer.Option("-k", help="How many passages.")] = 100,
    retriever: Kind = None,
    where: Where = None,
    encoder: EncoderFolder = None,
    distinct: Distinct = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Search and print."""
    from jpr.retrieve.retrievers import hits_json
    from jpr.types import Question

    if not question.strip():
        raise ConfigError("the question is empty; say what to look for")
    opened, _ = open_index(index, k, retriever, where, encoder, distinct)
    found = opened.retrieve(Question("", question), k)
    if as_json:
        screen.say_json({"question": question, "hits": hits_json(found)})
        return
    hits = found.hits
    for rank, hit in enumerate(hits[:_SHOWN], start=1):
        named = f"{hit.passage.title}  [{hit.passage.id}]"
        screen.say(f"{rank:3}  {hit.score:6.3g}  {screen.plain(named)}")
        screen.say(f"             {screen.plain(' '.join(hit.passage.text.split())[:_WIDTH])}")
    if len(hits) > _SHOWN:
        screen.note(f"{len(hits) - _SHOWN} more; --json prints all")
    if not hits:
        screen.note("no passage was found")


def open_index(
    folder: Path,
    k: int,
    kind: str | None,
    where: "Sequence[str] | None",
    encoder: Path | None,
    distinct: bool,
    threads: int = 0,
) -> "tuple[Retriever, str]":
    """Open an index as the options of a command say, and name what its rankings depend on."""
    from jpr.retrieve.duplicates import THRESHOLD, DistinctRetriever
    from jpr.retrieve.filters import parse_filter
    from jpr.retrieve.retrievers import open_retriever

    if k < 1:
        raise ConfigError(f"-k {k}: ask for at least one passage")
    filter = parse_filter(where) if where else None
    own = _loaded(encoder, threads)
    opened = open_retriever(folder, kind, encoder=own, where=filter, threads=threads)
    if distinct:
        return DistinctRetriever(opened), f"{opened.key} distinct {THRESHOLD}"
    return opened, opened.key


def _loaded(encoder: Path | None, threads: int) -> "Encoder | None":
    if encoder is None:
        return None
    from jpr.encode.encoder_folder import load_encoder

    return load_encoder(encoder, threads=threads)
