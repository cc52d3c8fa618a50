"""`jpr encode`: a corpus into vectors."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jpr.cli import screen
from jpr.cli.corpora import Split, TokenizerFile, read_corpus
from jpr.cli.processes import Processes, Scheduler, Workers

if TYPE_CHECKING:
    from jpr.encode.encoder import TextEncoder
    from jpr.encode.vectors import MapChunks

NAME = "encode"
HELP = """Encode a corpus: a vector for every passage. One machine does it, or many.

Any format of passages will do (`jpr formats`). An encoding that was interrupted goes on where it
was when the same command is given again. With --workers or --scheduler, Dask shares the work out;
workers must find the encoder under the same path.

Example: jpr encode psgs_w100.tsv.gz --out vectors

Example: jpr encode psgs_w100.tsv.gz --out vectors --scheduler tcp://node1:8786
"""


def run(
    corpus: Annotated[Path, typer.Argument(help="File or folder of passages.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of vectors.")],
    encoder: Annotated[
        Path | None, typer.Option(help="Folder of an encoder; without, the one that comes along.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    kind: Annotated[str, typer.Option(help="Numbers on disk: float16, or sq8 (half)")] = "float16",
    workers: Workers = None,
    scheduler: Scheduler = None,
    split: Split = None,
    tokenizer: TokenizerFile = None,
) -> None:
    """Read, cut, encode."""
    from jpr.encode.encoder_folder import load_encoder
    from jpr.encode.vectors import vectors_for

    processes = Processes(workers, scheduler)
    opened = load_encoder(encoder, device)
    total = _count(corpus, split, tokenizer)
    passages = read_corpus(corpus, split, tokenizer)
    with (
        mapping(processes, opened, device) as map_chunks,
        screen.progress("encoding passages", total) as progress,
    ):
        made = vectors_for(
            passages, opened, out, precision=kind, map_chunks=map_chunks, progress=progress
        )
    screen.note(f"{len(made):,} vectors of {opened.dimension} numbers are in {out}")


def _count(corpus: Path, split: str | None, tokenizer: Path | None) -> int:
    """Count the passages first: reading them is nothing beside encoding them."""
    with screen.progress("counting passages", None) as progress:
        passages = read_corpus(corpus, split, tokenizer, lambda _: None)
        return sum(1 for _ in screen.counted(passages, progress))


@contextmanager
def mapping(processes: Processes, encoder: "TextEncoder", device: str) -> Iterator["MapChunks"]:
    """Say where chunks are encoded: here, or on a cluster for as long as it is needed."""
    from jpr.encode.vectors import encode_here

    if processes.is_this_one:
        yield encode_here
        return
    from jpr.encode.vectors import encode_on_workers

    with processes.cluster() as client:
        yield encode_on_workers(client, encoder, device)
