"""The manifest of an index, `manifest.json`: written last, checked first.

It has a checksum of every file. Opening an index verifies sizes, and the checksums of files up to
`VERIFY_UP_TO` bytes (about 30 ms for a million passages); the first use of a part, those of its
large files (`block_sums.py`); a change or `jpr doctor INDEX`, of all.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256 as hash_of
from pathlib import Path

from jpr.errors import FormatError
from jpr.io.checksums import check_sums, sealed, sha256
from jpr.io.json_files import write_json
from jpr.io.settings import read_sealed
from jpr.retrieve.block_sums import (
    BLOCKS,
    BlockSums,
    FirstUse,
    HashedFile,
    hash_blocks,
    read_block_sums,
)

FORMAT = 2
PARTS = ("store", "bm25", "vectors")
NAME = "manifest.json"
_FILE = re.compile(rf"({'|'.join(PARTS)})/[^/\0]+")
VERIFY_UP_TO = 16 << 20
CHECKED_WHEN_READ = "store/passages.zst"
"""Each passage in this file has a checksum of its own."""


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
    manifest, sizes = load_manifest(version), file_sizes(version)
    if any(sizes.get(name) != size for name, size in manifest.sizes.items()):
        problem = "a file is missing or has another size; see jpr doctor INDEX, or build it again"
        raise FormatError(version, 0, problem)
    sums = {version / name: expected for name, expected in manifest.sums.items()}
    check_sums(sums, VERIFY_UP_TO if verify_up_to is None else verify_up_to)
    return manifest


def load_manifest(version: Path) -> IndexManifest:
    """Read the manifest of a version, but none of its files."""
    try:
        manifest = read_sealed(IndexManifest, version / NAME, FORMAT)
    except FormatError as error:
        problem = f"not a complete index ({error.problem}); build it again"
        raise FormatError(version, 0, problem) from error
    names = manifest.sizes.keys()
    if not manifest.sums.keys() <= names or not all(map(_FILE.fullmatch, names)):
        raise FormatError(version, 0, "its manifest names files elsewhere; build it again")
    return manifest


def write_manifest(version: Path, manifest: IndexManifest, base: Path | None) -> IndexManifest:
    """Add the checksums of a version's files to its manifest, and write it.

    The manifest may be that of a base version, whose checksums hold for the files linked from it.
    """
    sizes, sums, blocks = file_sizes(version), {}, {}
    known = _known_blocks(base, {}) if base else {}
    for name in sizes:
        file, is_linked = version / name, base and _is_same(version / name, base / name)
        sums[name] = (is_linked and manifest.sums.get(name)) or sha256(file)
        blocks[name] = (is_linked and known.get(name)) or hash_blocks(file)
    BlockSums(blocks).write(version)
    made = replace(manifest, sizes=sizes, sums=sums)
    write_json(version / NAME, sealed(asdict(made)))
    return made


def _is_same(file: Path, other: Path) -> bool:
    return other.exists() and file.samefile(other)


def file_sizes(version: Path) -> dict[str, int]:
    """Return the sizes of a version's files in bytes, by their paths in it."""
    files = (file for part in PARTS for file in sorted((version / part).glob("*")))
    regular = [file for file in files if file.is_file() and not file.name.endswith(".lock")]
    found = {}
    with suppress(FileNotFoundError):  # another version has just replaced this one
        found = {file.relative_to(version).as_posix(): file.stat().st_size for file in regular}
    return found


def find_damage(version: Path, manifest: IndexManifest) -> dict[str, str]:
    """Compare all files of a version; return what is wrong with some, by their paths in it."""
    found: dict[str, str] = {}
    blocks, sizes = _known_blocks(version, found), file_sizes(version)
    for name, size in manifest.sizes.items():
        if name not in sizes:
            found[name] = "is missing"
        elif sizes[name] != size:
            found[name] = f"has {sizes[name]:,} bytes instead of {size:,}"
        elif name in manifest.sums:
            found[name] = _problem(version / name, manifest.sums[name], blocks.get(name, ()))
    return {name: problem for name, problem in found.items() if problem}


def _known_blocks(version: Path, found: dict[str, str]) -> Mapping[str, tuple[str, ...]]:
    try:
        return read_block_sums(version).files
    except FormatError as error:
        found[BLOCKS] = error.problem
        return {}


def _problem(path: Path, sum: str, blocks: Sequence[str]) -> str:
    try:
        return HashedFile(path, sum).problem(blocks)
    except FormatError as error:  # the disk cannot read it
        return error.problem


def large_files(version: Path, manifest: IndexManifest) -> FirstUse:
    """Return the check of those files that `read_manifest` has not hashed."""
    sums, sizes = manifest.sums, manifest.sizes
    large = {n: sums[n] for n in sums if sizes[n] > VERIFY_UP_TO and n != CHECKED_WHEN_READ}
    return FirstUse(version, large)
