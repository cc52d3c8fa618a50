"""`jpr index`."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

import jpr
from jpr.cli import files, output
from jpr.cli.arguments import Arguments, Settings, Split, Workers, argument, label, option
from jpr.errors import ConfigError, DataError
from jpr.io.cluster import StageSpec, open_runner
from jpr.io.settings import parse_settings
from jpr.io.text_files import read_lines
from jpr.retrieve import engines
from jpr.stages import Progress
from jpr.types import Passage

if TYPE_CHECKING:
    from jpr.encode.encoder import TextEncoder
    from jpr.encode.vectors import StoredVectors

_TOO_LONG = (
    "you can stop and resume it, build a lexical index with --encoder none, or make the vectors "
    "on a GPU: --vectors DIR --set device=cuda"
)


class IndexArguments(Arguments):
    corpus: Path | None = argument("File or folder of passages or documents.", default=None)
    out: Path | None = option("Output", "Folder of the index.", "-o")
    encoder: str | None = option(
        "Model", "Folder, or none for a lexical index.", metavar="DIR|none", show_default="bundled"
    )
    vectors: Path | None = option(
        "Output",
        "Folder of the passages' vectors: used if complete, otherwise written and resumed. "
        "Without --out, only vectors are made.",
    )
    add: bool = option("Input", "Add the corpus to the index.", default=False)
    remove: str | None = option("Input", "Remove passages: id,id,… or a file with one id per line.")
    workers: Workers = None
    milvus: str | None = option(
        "Output", "Put the index into Milvus: address of a server, or file.db.", metavar="URI"
    )
    split: Split = None
    set: Settings = None

    def __post_init__(self) -> None:
        if [self.corpus is None, self.remove is None, not self.settings.repair].count(False) != 1:
            raise ConfigError(
                "give either a corpus to index, ids with --remove, or --set repair=true"
            )
        if self.out is None and (self.vectors is None or self.corpus is None):
            raise ConfigError("give --out INDEX, or --vectors DIR to make only vectors")
        if self.corpus is None and self.add:
            raise ConfigError("--add and --remove or repair are two steps; run one after the other")
        if self.settings.replace and not self.add:
            raise ConfigError("replace=true needs --add; without it the whole index is replaced")
        if self.encoder == engines.NO_ENCODER and self.vectors is not None:
            raise ConfigError("--encoder none and --vectors exclude each other; remove one")
        if self.settings.precision and self.vectors is None:
            raise ConfigError(f"--set precision={self.settings.precision} is for --vectors DIR")
        self._check_engine()

    @cached_property
    def settings(self) -> engines.IndexSettings:
        """The parsed `--set` pairs."""
        return parse_settings(engines.IndexSettings, self.set or ())

    @property
    def engine(self) -> str:
        """Name of the engine that holds the index."""
        return self.settings.engine or (engines.MILVUS if self.milvus else engines.FILES)

    def _check_engine(self) -> None:
        """Reject options that only other engines have."""
        known = engines.ENGINES
        if self.engine not in known:
            raise ConfigError(f"--set engine={self.engine}: choose one of {', '.join(known)}")
        settings = (pair.partition("=")[0].strip() for pair in self.set or ())
        given = [*map(label, self.given()), *(f"--set {key}" for key in settings)]
        others = {option for engine in known.values() for option in engine.options}
        extra = sorted(others.intersection(given) - set(known[self.engine].options))
        if self.out is not None and extra:
            why = f"not supported by the engine {self.engine}; remove these"
            raise ConfigError(f"{', '.join(extra)}: {why}")


def run(options: IndexArguments) -> None:
    """Index a corpus, change an index, or encode a corpus into vectors.

    Reads every passage format (`jpr validate` lists them), and folders of documents as `jpr ask
    --docs` does. An existing index stays in use until the new one is complete. An interrupted
    command resumes when it is run again.

    Settings (--set): device (auto, cpu, cuda), precision of --vectors (float16, sq8), nprobe
    (clusters visited by a search, above a million passages); with --add: replace (true: passages
    of the same id are replaced); with --milvus: collection, graph (hnsw, ivf). With --out alone:
    repair (true: damaged parts are made again from the passages and --vectors or the encoder).

    Example: jpr index psgs_w100.tsv.gz --out wiki
    Example: jpr index articles/ --out notes --split words:100 --encoder none
    Example: jpr index psgs_w100.tsv.gz --vectors vectors --set device=cuda
    Example: jpr index psgs_w100.tsv.gz --out wiki --vectors vectors
    Example: jpr index more.tsv --add --out wiki
    Example: jpr index --remove 17,23 --out wiki
    Example: jpr index --out wiki --set repair=true
    Example: jpr index psgs_w100.tsv.gz --out wiki --milvus http://localhost:19530
    """
    corpus, out, vectors = options.corpus, options.out, options.vectors
    if out is not None:
        engines.check_engine(out, options.engine)
    if out is not None and options.remove is not None:
        _remove(options.remove, options, out)
        return
    if out is not None and corpus is None:
        engine = engines.ENGINES[options.engine].load()
        output.note(engine.repair(_index_options(options, out, options.encoder)))
        return
    assert corpus is not None
    if vectors is not None and (out is None or not (vectors / "done.json").exists()):
        _write_vectors(options, corpus, vectors)
    if out is not None:
        _index(options, corpus, out)


def _remove(given: str, options: IndexArguments, out: Path) -> None:
    is_file = Path(given).is_file()
    ids = [id for _, id in read_lines(Path(given)) if id] if is_file else given.split(",")
    try:
        output.note(engines.ENGINES[options.engine].load().remove(ids, out))
    except DataError as error:
        raise error if is_file else DataError(f"{error}; no file is called {given}") from error


def _write_vectors(options: IndexArguments, corpus: Path, folder: Path) -> None:
    """Write the vectors of a corpus to the folder of `--vectors`."""
    encoder = jpr.load_encoder(options.encoder, options.settings.device)
    total = sum(1 for _ in files.read_corpus(corpus, options.split))
    passages = files.read_corpus(corpus, options.split, quiet=True)
    vectors = _encode(options, passages, total, encoder, folder)
    output.note(f"wrote {len(vectors):,} vectors of dimension {encoder.dimension} to {folder}")


def _index(options: IndexArguments, corpus: Path, out: Path) -> None:
    from jpr.encode.encoder_folder import BUNDLED_ENCODER

    encoder = options.encoder
    has_own = encoder is not None or options.add or options.vectors is not None
    if not has_own and not BUNDLED_ENCODER.is_dir():
        output.note("no encoder is bundled with this installation: the index is lexical only")
        encoder = engines.NO_ENCODER
    index_options = _index_options(options, out, encoder)
    passages = index_options.checked(files.read_corpus(corpus, options.split))
    engine = engines.ENGINES[options.engine].load()
    write = engine.add if options.add else engine.build
    output.note(write(passages, index_options))


def _index_options(options: IndexArguments, out: Path, encoder: str | None) -> engines.IndexOptions:
    return engines.IndexOptions(
        out,
        options.corpus.name if options.corpus else "",
        encoder=encoder,
        vectors=options.vectors,
        encode=partial(_encode, options),
        uri=options.milvus,
        settings=options.settings,
    )


def _encode(
    options: IndexArguments,
    passages: Iterable[Passage],
    total: int,
    encoder: "TextEncoder",
    folder: Path,
) -> "StoredVectors":
    """Encode passages, in this process or on workers; `precision` is given only for --vectors."""
    from jpr.encode.vectors import vectors_for

    device, precision = options.settings.device, options.settings.precision
    there, name = (encoder.folder, device, 1), str(encoder.folder or "the bundled encoder")
    spec = StageSpec(jpr.load_encoder, there, encoder.key, name)
    with open_runner(options.workers, spec) as run, _encoding_progress(total) as progress:
        return vectors_for(
            passages, encoder, folder, precision=precision, run=run, progress=progress
        )


@contextmanager
def _encoding_progress(total: int) -> Iterator[Progress]:
    """Show progress, and note early that encoding will take long."""
    left, last, noted = total, time.monotonic(), False
    with output.progress("encoding passages", total) as progress:

        def advance(done: int) -> None:
            nonlocal left, last, noted
            left, before, last = left - done, last, time.monotonic()
            hours = left * (last - before) / done / 3600
            if hours > 1 and not noted:
                noted = True
                output.note(f"encoding takes about {hours:.0f} hours on this machine; {_TOO_LONG}")
            progress(done)

        yield advance
