"""What can hold an index, `jpr index --engine NAME`: a line each, loaded when used.

The module of an engine has what `Holder` says; how to add one is in docs/extending.md.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from jpr.errors import ConfigError, DataError

if TYPE_CHECKING:
    from jpr.encode.vectors import StoredVectors
    from jpr.retrieve.filters import Filter
    from jpr.retrieve.retrievers import KeyedRetriever
    from jpr.retrieve.version_writer import MakeVectors
    from jpr.stages import Encoder
    from jpr.types import Passage

NO_ENCODER = "none"
"""In place of an encoder: no vectors."""


@dataclass(frozen=True, slots=True)
class IndexOptions:
    """What a user says of an index."""

    folder: Path
    source: str
    """What the corpus is called."""
    encoder: str | None = None
    """Folder of an encoder; `NO_ENCODER`; none for the encoder inside."""
    vectors: Path | None = None
    """Folder of vectors that were made before."""
    encode: "Callable[[Path | None], MakeVectors] | None" = None
    """Returns what encodes passages by the encoder in a folder; by default, here and silently."""
    replacing: bool = False
    """Whether an added passage may take the place of another."""
    nprobe: int | None = None
    uri: str | None = None
    """Address of a server."""
    collection: str | None = None
    graph: str | None = None

    def __post_init__(self) -> None:
        if self.encoder == NO_ENCODER and self.vectors is not None:
            raise ConfigError("--encoder none and --vectors exclude each other; leave one out")

    @property
    def encoder_folder(self) -> str:
        """The encoder's folder as the index shall know it; empty for the one inside."""
        return "" if self.encoder in (None, NO_ENCODER) else str(Path(self.encoder or "").resolve())

    def checked(self, passages: "Iterator[Passage]") -> "Iterator[Passage]":
        """Pass passages on; where vectors are given, only those that they were made of."""
        if self.vectors is None:
            return passages
        from jpr.encode.vectors import open_vectors

        return open_vectors(self.vectors).checked(passages)

    def stored(self) -> "StoredVectors | None":
        """Open the vectors that were made before, by the encoder that is named, if one is."""
        if self.vectors is None:
            return None
        from jpr.encode.encoder_folder import load_encoder
        from jpr.encode.vectors import open_vectors

        found = open_vectors(self.vectors)
        if (key := load_encoder(self.encoder_folder or None).key) != found.key:
            used = self.encoder_folder or "our own"
            told = f"was made by encoder {found.key}, but {used} is {key}"
            raise DataError(f"{self.vectors}: {told}; name the right one with --encoder")
        return found

    def vectors_of(self) -> "MakeVectors | None":
        """Return what gives all passages their vectors, if they shall have any."""
        if self.encoder == NO_ENCODER:
            return None
        found = self.stored()
        if found is not None:
            return lambda *_: found
        folder = Path(self.encoder_folder) if self.encoder_folder else None
        return self.encode(folder) if self.encode else self._encode_here(folder)

    def _encode_here(self, folder: Path | None) -> "MakeVectors":
        from jpr.encode.encoder_folder import load_encoder
        from jpr.retrieve.index import encoded_by

        return encoded_by(load_encoder(folder), self.folder)


class Holder(Protocol):
    """What the module of an engine has; `add` and `remove` only if its options name them."""

    def build(self, passages: "Iterable[Passage]", wanted: IndexOptions) -> str:
        """Make an index, with the engine's mark in the folder, and say in a line what it holds."""

    def open_retriever(
        self,
        folder: Path,
        kind: str | None,
        encoder: "Encoder | None",
        where: "Filter | None",
        threads: int,
    ) -> "KeyedRetriever":
        """Open what was made; no `kind` is the best there is, an encoder is used if it fits.

        `threads` is for an encoder that is opened; 0 is one per core.
        """

    def add(self, passages: "Iterable[Passage]", wanted: IndexOptions) -> str:
        """Add passages to an index."""

    def remove(self, ids: Iterable[str], folder: Path) -> str:
        """Remove passages from an index."""


@dataclass(frozen=True, slots=True)
class Engine:
    """A way to hold an index."""

    module: str
    mark: str
    """The file by which a folder is known to hold, or to lead to, an index of this engine."""
    options: tuple[str, ...] = ()
    """Those of `jpr index` that it can use, beside what all can."""

    def load(self) -> Holder:
        """Import the module."""
        return cast("Holder", import_module(self.module))


FILES, MILVUS = "files", "milvus"
_OF_FILES = ("--add", "--remove", "--nprobe", "--workers", "--scheduler")
ENGINES = {
    FILES: Engine("jpr.retrieve.files_engine", "CURRENT", _OF_FILES),
    MILVUS: Engine("jpr.retrieve.in_milvus", "milvus.json", ("--uri", "--collection", "--graph")),
}


def engine_of(folder: Path) -> str | None:
    """Return the name of the engine whose index is in a folder, if there is one."""
    return next((name for name, one in ENGINES.items() if (folder / one.mark).exists()), None)


def check_engine(folder: Path, name: str) -> None:
    """Keep out of a folder that holds an index of another engine."""
    if (held := engine_of(folder)) not in (None, name):
        raise ConfigError(f"{folder}: holds an index of engine {held}; choose another folder")
