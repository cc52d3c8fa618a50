"""`jpr index`: a corpus into an index, and changes to one."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jpr.cli import screen
from jpr.cli.corpora import Split, TokenizerFile, is_documents, read_corpus
from jpr.cli.inputs import refuse_useless
from jpr.cli.processes import Processes, Scheduler, Workers
from jpr.errors import ConfigError
from jpr.retrieve.engines import ENGINES, FILES, NO_ENCODER, IndexOptions, check_engine

if TYPE_CHECKING:
    from jpr.encode.encoder import TextEncoder
    from jpr.encode.vectors import StoredVectors
    from jpr.stages import Progress
    from jpr.types import Passage

NAME = "index"
HELP = """Index a corpus for `jpr search` and `jpr retrieve`.

Any format of passages will do (`jpr formats`), and any folder of documents that `jpr ask --docs`
reads: it is cut into the same passages, unless --split says how. An index that is already in the
folder stays in use until the new one is whole. If this command is killed, nothing is lost; given
once more, it goes on with the passages that were not encoded yet.

Example: jpr index psgs_w100.tsv.gz --out wiki

Example: jpr index contracts/ --out contracts.index

Example: jpr index articles/ --out notes --split words:100 --encoder none

Example: jpr index --add more.tsv --out wiki

Example: jpr index --remove 17,23 --out wiki

Example: jpr index psgs_w100.tsv.gz --out wiki --engine milvus --uri http://localhost:19530
"""
_MB = 1 << 20
_LONG = 1.0
"""Hours of encoding that deserve a note."""


def run(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the index.")],
    corpus: Annotated[Path | None, typer.Argument(help="File or folder of passages.")] = None,
    encoder: Annotated[
        str | None,
        typer.Option(help="Folder of an encoder, or none: words alone. Default: our own."),
    ] = None,
    vectors: Annotated[
        Path | None, typer.Option(help="Vectors of the same passages, made by `jpr encode`.")
    ] = None,
    nprobe: Annotated[
        int | None,
        typer.Option(help="Above a million passages: lists of vectors to look at in a search."),
    ] = None,
    add: Annotated[bool, typer.Option("--add", help="Add the corpus to the index.")] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="With --add: an id that is there is replaced.")
    ] = False,
    remove: Annotated[
        str | None, typer.Option(help="Remove ids: a file with one a line, or id,id,…")
    ] = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    engine: Annotated[
        str, typer.Option(help=f"What holds the index: {', '.join(ENGINES)}.")
    ] = FILES,
    uri: Annotated[
        str | None, typer.Option(help="Milvus: the address of a server, or a file, x.db.")
    ] = None,
    collection: Annotated[
        str | None, typer.Option(help="Milvus: the collection's name.  [default: jpr]")
    ] = None,
    graph: Annotated[
        str | None, typer.Option(help="Milvus: hnsw, or ivf (less memory).  [default: hnsw]")
    ] = None,
    split: Split = None,
    tokenizer: TokenizerFile = None,
) -> None:
    """Read, cut, index, encode, publish."""
    _check(corpus, add, replace, remove)
    processes = Processes(workers, scheduler)
    given = {
        "--add": add or None,
        "--remove": remove,
        "--set nprobe": nprobe,
        "--workers": workers or scheduler,
        "--milvus": uri,
        "--set collection": collection,
        "--set graph": graph,
    }
    refuse_useless("--engine", engine, given, {name: one.options for name, one in ENGINES.items()})
    check_engine(out, engine)
    holder = ENGINES[engine].load()
    if corpus is None or remove is not None:
        screen.note(holder.remove(_ids(remove or ""), out))
        return
    wanted = IndexOptions(
        out,
        corpus.name,
        encoder=encoder if add or vectors else _encoder(encoder),
        vectors=vectors,
        encode=partial(_encode, processes),
        replacing=replace,
        nprobe=nprobe,
        uri=uri,
        collection=collection,
        graph=graph,
    )
    passages = wanted.checked(_read(corpus, split, tokenizer))
    screen.note(holder.add(passages, wanted) if add else holder.build(passages, wanted))


def _check(corpus: Path | None, add: bool, replace: bool, remove: str | None) -> None:
    if (corpus is None) == (remove is None):
        raise ConfigError("name a corpus to index, or ids with --remove: one of the two")
    if remove is not None and add:
        raise ConfigError("--add and --remove are two commands; give one after the other")
    if replace and not add:
        raise ConfigError("--replace is for --add; without it the whole index is replaced")


def _encoder(named: str | None) -> str | None:
    """Return the encoder of a new index; none at all where there is none inside."""
    from jpr.encode.encoder_folder import BUNDLED_ENCODER

    if named is None and not BUNDLED_ENCODER.is_dir():
        screen.note("this installation has no encoder of its own: words alone are indexed")
        return NO_ENCODER
    return named


def _ids(remove: str) -> list[str]:
    path = Path(remove)
    if not path.is_file():
        return remove.split(",")
    from jpr.io.text_files import read_lines

    return [line for _, line in read_lines(path) if line]


def _read(corpus: Path, split: str | None, tokenizer: Path | None) -> "Iterator[Passage]":
    """Yield the passages of a corpus, and show how far its reading has come."""
    if is_documents(corpus):
        yield from read_corpus(corpus, split, tokenizer)
        return
    from jpr.io.text_files import watch_reading

    files = [corpus] if corpus.is_file() else [path for path in corpus.rglob("*") if path.is_file()]
    total = sum(path.stat().st_size for path in files) // _MB
    with screen.progress("reading and indexing, MB", total) as progress, watch_reading() as reading:
        shown = 0
        for count, passage in enumerate(read_corpus(corpus, split, tokenizer)):
            yield passage
            if count % 1000 == 0 and (done := reading.bytes // _MB) > shown:
                progress(done - shown)
                shown = done


def _encode(
    processes: Processes, passages: "Sequence[Passage]", encoder: "TextEncoder", folder: Path
) -> "StoredVectors":
    """Encode passages, here or on workers."""
    from jpr.cli.encode import mapping
    from jpr.encode.vectors import vectors_for

    with (
        mapping(processes, encoder, "auto") as map_chunks,
        _encoding_shown(len(passages)) as progress,
    ):
        return vectors_for(passages, encoder, folder, map_chunks=map_chunks, progress=progress)


@contextmanager
def _encoding_shown(total: int) -> "Iterator[Progress]":
    """Show how far the encoding has come, and say early on when it will take long."""
    left, last, told = total, time.monotonic(), False
    with screen.progress("encoding passages", total) as progress:

        def advance(done: int) -> None:
            nonlocal left, last, told
            left, before, last = left - done, last, time.monotonic()
            hours = left * (last - before) / done / 3600
            if hours > _LONG and not told:
                told = True
                screen.note(
                    f"encoding will take about {hours:.0f} hours here, and may be stopped and "
                    "resumed; --encoder none leaves vectors out, and `jpr encode --device cuda` "
                    "makes them on a GPU, for --vectors"
                )
            progress(done)

        yield advance
