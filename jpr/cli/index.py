"""`jpr index`: a corpus into an index, and changes to one."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from dataclasses import replace as replace_fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jpr.cli import screen
from jpr.cli.corpora import Split, TokenizerFile, is_documents, read_corpus
from jpr.cli.processes import Processes, Scheduler, Workers
from jpr.errors import ConfigError, DataError

if TYPE_CHECKING:
    from jpr.encode.vectors import StoredVectors
    from jpr.retrieve.contents import Contents
    from jpr.retrieve.dense import VectorSource
    from jpr.retrieve.draft import VectorsOf
    from jpr.stages import Progress
    from jpr.types import Passage

NAME = "index"
HELP = """Index a corpus, so that `jpr search` and `jpr retrieve` find passages in it.

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
_NONE = "none"
_FILES, _MILVUS = "files", "milvus"
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
    engine: Annotated[str, typer.Option(help="What holds the index: files, or milvus.")] = _FILES,
    uri: Annotated[
        str | None, typer.Option(help="Milvus: the address of a server, or a file, x.db.")
    ] = None,
    collection: Annotated[str, typer.Option(help="Milvus: the collection's name.")] = "jpr",
    graph: Annotated[str, typer.Option(help="Milvus: hnsw, or ivf (less memory).")] = "hnsw",
    split: Split = None,
    tokenizer: TokenizerFile = None,
) -> None:
    """Read, cut, index, encode, publish."""
    from jpr.retrieve.index import add_to_index, build_index, remove_from_index

    _check(corpus, add, replace, remove)
    _check_engine(engine, uri, changed=add or remove is not None)
    if uri is None and (out / "milvus.json").exists():
        raise ConfigError(f"{out}: says where an index in Milvus is; choose another folder")
    wish = _Wish(out, encoder, vectors, Processes(workers, scheduler))
    if corpus is None or remove is not None:
        _tell(remove_from_index(_ids(remove or ""), out), out)
        return
    passages, source = wish.checked(_read(corpus, split, tokenizer)), corpus.name
    if uri is not None:
        _into_milvus(passages, source, wish, (uri, collection, graph))
    elif add:
        given = wish.to_add()
        _tell(add_to_index(passages, out, source=source, replacing=replace, vectors=given), out)
    else:
        made = build_index(
            passages,
            out,
            source=source,
            vectors=wish.vectors_of(),
            encoder_folder=wish.folder,
            nprobe=nprobe,
        )
        _tell(made, out)


def _check(corpus: Path | None, add: bool, replace: bool, remove: str | None) -> None:
    if (corpus is None) == (remove is None):
        raise ConfigError("name a corpus to index, or ids with --remove: one of the two")
    if remove is not None and add:
        raise ConfigError("--add and --remove are two commands; give one after the other")
    if replace and not add:
        raise ConfigError("--replace is for --add; without it the whole index is replaced")


def _check_engine(engine: str, uri: str | None, changed: bool) -> None:
    if engine not in (_FILES, _MILVUS):
        raise ConfigError(f"--engine {engine}: choose {_FILES} or {_MILVUS}")
    if (engine == _MILVUS) != (uri is not None):
        raise ConfigError("--engine milvus and --uri belong together; give both or none")
    if changed and uri is not None:
        raise ConfigError("an index in Milvus is not changed; build it anew")


def _ids(remove: str) -> list[str]:
    path = Path(remove)
    if not path.is_file():
        return remove.split(",")
    from jpr.files import read_lines

    return [line for _, line in read_lines(path) if line]


def _read(corpus: Path, split: str | None, tokenizer: Path | None) -> "Iterator[Passage]":
    """Yield the passages of a corpus, and show how far its reading has come."""
    if is_documents(corpus):
        yield from read_corpus(corpus, split, tokenizer)
        return
    from jpr.files import watch_reading

    files = [corpus] if corpus.is_file() else [path for path in corpus.rglob("*") if path.is_file()]
    total = sum(path.stat().st_size for path in files) // _MB
    with screen.progress("reading and indexing, MB", total) as progress, watch_reading() as reading:
        shown = 0
        for count, passage in enumerate(read_corpus(corpus, split, tokenizer)):
            yield passage
            if count % 1000 == 0 and (done := reading.bytes // _MB) > shown:
                progress(done - shown)
                shown = done


@dataclass(frozen=True)
class _Wish:
    """What the options say about vectors."""

    out: Path
    encoder: str | None
    vectors: Path | None
    processes: Processes

    def __post_init__(self) -> None:
        if self.encoder == _NONE and self.vectors is not None:
            raise ConfigError("--encoder none and --vectors exclude each other; leave one out")

    @property
    def folder(self) -> str:
        """The encoder's folder as the index shall know it; empty for our own."""
        return "" if self.encoder in (None, _NONE) else str(Path(self.encoder or "").resolve())

    def vectors_of(self) -> "VectorsOf | None":
        """Return what gives the vectors of a new index, if it shall have any."""
        from jpr.encode.folder import DEFAULT

        if self.vectors is not None:
            found = self.given(self.vectors)
            return lambda *_: found
        if self.encoder is None and not DEFAULT.is_dir():
            screen.note("this installation has no encoder of its own: words alone are indexed")
            return None
        return None if self.encoder == _NONE else self.encoding()

    def to_add(self) -> "VectorsOf | None":
        """Return what gives new passages their vectors: by the index's own encoder if need be."""
        from jpr.retrieve.index import Index

        known = Index(self.out).manifest.vectors
        if self.encoder is not None or self.vectors is not None:
            return self.vectors_of()
        if known is None:
            return None
        return replace_fields(self, encoder=known.encoder or None).vectors_of()

    def checked(self, passages: "Iterator[Passage]") -> "Iterator[Passage]":
        """Pass passages on; where vectors are given, only those that they were made of."""
        if self.vectors is None:
            return passages
        from jpr.encode.vectors import open_vectors

        return open_vectors(self.vectors).checked(passages)

    def given(self, vectors: Path) -> "StoredVectors":
        """Open vectors that were made before, by the encoder that is named, if one is."""
        from jpr.encode.folder import load_encoder
        from jpr.encode.vectors import open_vectors

        found = open_vectors(vectors)
        if (key := load_encoder(self.folder or None).key) != found.key:
            told = f"was made by encoder {found.key}, but {self.folder or 'our own'} is {key}"
            raise DataError(f"{vectors}: {told}; name the right one with --encoder")
        return found

    def encoding(self) -> "VectorsOf":
        """Return what encodes passages, here or on workers."""
        from jpr.cli.encode import mapping
        from jpr.encode.folder import load_encoder
        from jpr.retrieve.index import encoded_by

        encoder = load_encoder(self.folder or None)
        folder = Path(self.folder) if self.folder else None

        def vectors(passages: "Sequence[Passage]", sha256: str) -> "VectorSource":
            with mapping(self.processes, folder, "auto") as map_chunks:
                encoded = encoded_by(
                    encoder, self.out, map_chunks=map_chunks, watched=_encoding_shown
                )
                return encoded(passages, sha256)

        return vectors


def _into_milvus(
    passages: "Iterator[Passage]", source: str, wish: _Wish, place: tuple[str, str, str]
) -> None:
    from jpr.encode.folder import load_encoder
    from jpr.retrieve.milvus_build import Encoded, Stored, build_milvus

    if wish.encoder == _NONE:
        raise ConfigError("--encoder none: Milvus holds vectors; name an encoder or --vectors")
    if not wish.processes.is_this_one:
        raise ConfigError("encode with `jpr encode --workers` first, and give --vectors here")
    uri, collection, graph = place
    made = build_milvus(
        passages,
        wish.out,
        Stored(wish.given(wish.vectors))
        if wish.vectors
        else Encoded(load_encoder(wish.folder or None)),
        uri=uri,
        alias=collection,
        graph=graph,
        source=source,
        encoder_folder=wish.folder,
    )
    screen.note(f"{made.passages:,} passages are indexed in Milvus at {uri}")


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


def _tell(made: "Contents", out: Path) -> None:
    vectors = made.vectors
    what = f"{made.passages:,} passages are indexed in {out}"
    if vectors is None:
        screen.note(f"{what}, by their words")
    else:
        found = f"recall@100 of a search by vectors is {vectors.recall:.3f}"
        screen.note(f"{what}, by words and vectors; {found}")
