"""The manifest of an index, `manifest.json`: written last, checked first.

It has a checksum of every file. Opening an index verifies sizes, and the checksums of files up to
`VERIFY_UP_TO` bytes (about 30 ms for a million passages); a change or `jpr doctor INDEX`, of all.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256 as hash_of
from pathlib import Path

from jpr.errors import FormatError
from jpr.io.checksums import check_sums
from jpr.io.settings import read_sealed

FORMAT = 2
PARTS = ("store", "bm25", "vectors")
NAME = "manifest.json"
VERIFY_UP_TO = 16 << 20


@dataclass(frozen=True, slots=True)
class Change:
    """One step in the history of an index."""

    what: str  # build, add, remove, or update of documents
    source: str
    added: int
    removed: int


@dataclass(frozen=True, slots=True)
class DenseManifest:
    """The dense part of an index."""

    encoder: str  # folder of the encoder; empty for the bundled one
    key: str  # the encoder's key: questions must be encoded with the same
    dimension: int
    kind: str  # `sq8`: exhaustive search; `ivf-sq8`: search of the lists nearest to the question
    lists: int
    nprobe: int  # lists searched per question; 0 if there are none
    recall: float
    """Share of the exact 100 nearest neighbors that a search finds, measured at the build."""


@dataclass(frozen=True, slots=True)
class IndexManifest:
    """What an index holds."""

    passages: int
    rows: int  # passages, and those removed since the last build
    source: str
    corpus_sha256: str
    """Of the passages in order; a change hashes the previous value together with its own."""
    analyser: str
    fields: tuple[str, ...]  # fields that a filter can use
    vectors: DenseManifest | None
    history: tuple[Change, ...]
    sizes: Mapping[str, int]
    sums: Mapping[str, str] = field(default_factory=dict)
    """Checksums of the files; an index of the first releases has none."""
    format: int = FORMAT

    @property
    def key(self) -> str:
        """Two indexes with the same key give the same results."""
        vectors = repr(self.vectors).replace("DenseManifest", "VectorContents", 1)  # as in 0.1.0
        parts = f"({self.format!r}, {self.corpus_sha256!r}, {self.analyser!r}, {vectors})"
        return hash_of(parts.encode()).hexdigest()


def read_manifest(version: Path, verify_up_to: float | None = None) -> IndexManifest:
    """Read the manifest of a version and verify its files; hash those of up to that many bytes."""
    try:
        manifest = read_sealed(IndexManifest, version / NAME, FORMAT)
    except FormatError as error:
        problem = f"not a complete index ({error.problem}); build it again"
        raise FormatError(version, 0, problem) from error
    try:
        found = file_sizes(version)
    except OSError:  # another version has just replaced this one
        found = {}
    if manifest.sizes != found:
        raise FormatError(version, 0, "a file is missing or has another size; build it again")
    sums = {version / name: expected for name, expected in manifest.sums.items()}
    check_sums(sums, VERIFY_UP_TO if verify_up_to is None else verify_up_to)
    return manifest


def file_sizes(version: Path) -> dict[str, int]:
    """Return the sizes of a version's files in bytes, by their paths in it."""
    files = (file for part in PARTS for file in sorted((version / part).glob("*")))
    named = ((file.relative_to(version).as_posix(), file) for file in files)
    return {name: file.stat().st_size for name, file in named if not name.endswith(".lock")}
