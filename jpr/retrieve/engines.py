"""Index engines: what can hold an index; one line each, imported when used.

An engine's module has the functions of `jpr.retrieve.files_engine`; docs/extending.md shows how to
add one.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from jpr.errors import ConfigError, DataError

if TYPE_CHECKING:  # `jpr --help` loads no encoders and no faiss
    from jpr.encode.encoder import TextEncoder
    from jpr.encode.vectors import StoredVectors
    from jpr.retrieve.version_writer import MakeVectors
    from jpr.types import Passage

NO_ENCODER = "none"  # in place of an encoder: a lexical index without vectors


@dataclass(frozen=True)
class IndexSettings:
    """What `jpr index --set` takes; its help says what the keys mean."""

    device: str = "auto"
    precision: str | None = None
    nprobe: int | None = None
    replace: bool = False
    repair: bool = False
    collection: str | None = None
    graph: str | None = None
    engine: str | None = None
    """Name of an engine that is added to `ENGINES`."""


@dataclass(frozen=True)
class IndexOptions:
    """What to build or change, and how."""

    folder: Path
    source: str  # name of the corpus
    encoder: str | None = None  # folder of an encoder, or `NO_ENCODER`; by default the bundled one
    vectors: Path | None = None
    """Complete vectors of the passages (`jpr.encode.vectors.vectors_for`)."""
    encode: "Callable[[Iterable[Passage], int, TextEncoder, Path], StoredVectors] | None" = None
    """Encodes that many passages into a folder; by default `vectors_for`, in this process."""
    uri: str | None = None  # address of a server
    settings: IndexSettings = IndexSettings()

    @property
    def encoder_folder(self) -> str:
        """The encoder's folder as the index records it; empty for the bundled one."""
        named = self.encoder or NO_ENCODER
        return "" if named == NO_ENCODER else str(Path(named).resolve())

    def load_encoder(self) -> "TextEncoder":
        """Open the encoder."""
        from jpr.encode.encoder_folder import load_encoder

        return load_encoder(self.encoder_folder or None, self.settings.device)

    def checked(self, passages: "Iterator[Passage]") -> "Iterator[Passage]":
        """Yield passages; vectors of other passages are an error."""
        return passages if self.stored is None else self.stored.checked(passages)

    @cached_property
    def stored(self) -> "StoredVectors | None":
        """The opened vectors, if any were given; those of another encoder are an error."""
        if self.vectors is None:
            return None
        from jpr.encode.vectors import open_vectors

        found = open_vectors(self.vectors)
        if (key := self.load_encoder().key) != found.key:
            name = self.encoder_folder or "the bundled encoder"
            raise DataError(
                f"{self.vectors}: vectors of encoder {found.key}, but {name} is {key}; "
                "name the right one with --encoder"
            )
        return found

    def make_vectors(self) -> "MakeVectors | None":
        """Return what gives passages their vectors; None for a lexical index."""
        if self.encoder == NO_ENCODER:
            return None
        if (stored := self.stored) is not None:
            return lambda *_: stored
        from jpr.retrieve.index import encoded_by

        return encoded_by(self.load_encoder(), self.folder, self.encode)


@dataclass(frozen=True, slots=True)
class Engine:
    """Where an engine is and how its index is recognized."""

    module: str
    """Has `build`, `open_retriever` and, if the options name them, `add`, `remove`, `repair`."""
    marker: str  # the file that marks a folder as an index of this engine
    options: tuple[str, ...] = ()  # options of `jpr index` that not every engine has

    def load(self) -> ModuleType:
        """Import the module."""
        return import_module(self.module)


FILES, MILVUS = "files", "milvus"
ENGINES = {
    FILES: Engine(
        "jpr.retrieve.files_engine",
        "CURRENT",
        ("--add", "--remove", "--workers", "--set nprobe", "--set repair"),
    ),
    MILVUS: Engine(
        "jpr.retrieve.milvus", "milvus.json", ("--milvus", "--set collection", "--set graph")
    ),
}


def engine_of(folder: Path) -> str | None:
    """Return the name of the engine whose index is in a folder, if any."""
    return next((name for name, one in ENGINES.items() if (folder / one.marker).exists()), None)


def check_engine(folder: Path, name: str) -> None:
    """Raise an error if a folder holds an index of another engine."""
    if (held := engine_of(folder)) not in (None, name):
        raise ConfigError(f"{folder}: holds an index of engine {held}; choose another folder")
