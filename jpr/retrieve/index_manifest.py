"""What an index says of itself: `manifest.json`, written last and checked first.

It holds the hash of every file. An index is opened after a look at the hashes of files up to
`LOOKED_AT` bytes, which for a million passages takes some 30 ms, and at the sizes of the others;
all are looked at before it is changed, and by `jpr doctor INDEX`.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from hashlib import sha256 as digest
from pathlib import Path

from jpr.errors import FormatError
from jpr.io.atomic import publish
from jpr.io.checksums import check_sums, sealed, sha256, unsealed
from jpr.io.json_files import read_object

FORMAT = 2
PARTS = ("store", "bm25", "vectors")
NAME = "manifest.json"
LOOKED_AT = 16 << 20


@dataclass(frozen=True, slots=True)
class Change:
    """One step of an index's history."""

    what: str
    """`build`, `add` or `remove`."""
    source: str
    added: int
    removed: int


@dataclass(frozen=True, slots=True)
class DenseManifest:
    """What is known of the vectors."""

    encoder: str
    """The folder of the encoder; empty for the one that comes with the package."""
    key: str
    """The encoder's key: questions must be encoded under the same."""
    dimension: int
    kind: str
    """`sq8`: every vector is compared; `ivf-sq8`: those of the lists nearest to the question."""
    lists: int
    nprobe: int
    """How many of the lists are looked at; 0 where there are none."""
    recall: float
    """The share of the exact 100 nearest that a search finds: measured on passages at the build."""


@dataclass(frozen=True, slots=True)
class IndexManifest:
    """What is inside an index."""

    passages: int
    rows: int
    """Passages and ones that were removed since the last build."""
    source: str
    corpus_sha256: str
    """Of the passages in their order; a change hashes the hash before it together with its own."""
    analyser: str
    fields: tuple[str, ...]
    """What a filter can ask for."""
    vectors: DenseManifest | None
    history: tuple[Change, ...]
    sizes: Mapping[str, int]
    sums: Mapping[str, str] = field(default_factory=dict)
    """The hashes of its files; none in an index of before there were any."""
    format: int = FORMAT

    @property
    def key(self) -> str:
        """Two indexes with the same key give the same answers."""
        vectors = repr(self.vectors).replace("DenseManifest(", "VectorContents(", 1)  # as in 0.1.0
        parts = f"({self.format!r}, {self.corpus_sha256!r}, {self.analyser!r}, {vectors})"
        return digest(parts.encode()).hexdigest()


def write_manifest(contents: IndexManifest, version: Path) -> None:
    """Write the manifest of a version."""
    with publish(version / NAME) as stream:
        stream.write(json.dumps(sealed(asdict(contents)), indent=1) + "\n")


def read_manifest(version: Path) -> IndexManifest:
    """Read what a version should hold and compare the sizes of its files."""
    try:
        record = read_object(version / NAME)
        known = record["format"]
        contents = _contents(unsealed(version / NAME, record)) if known == FORMAT else None
    except (FormatError, KeyError, TypeError) as error:
        told = error.problem if isinstance(error, FormatError) else error
        raise FormatError(version, 0, f"is no whole index ({told}); build it again") from error
    if contents is not None:
        return _checked(contents, version)
    problem = f"is of format {known}, this program reads {FORMAT}; build it again"
    raise FormatError(version, 0, problem)


def _contents(record: dict[str, object]) -> IndexManifest:
    vectors, history, fields = record["vectors"], record["history"], record["fields"]
    if not isinstance(history, list) or not isinstance(fields, list):
        raise TypeError("history and fields should be lists")
    return IndexManifest(
        **{
            **record,
            "fields": tuple(fields),
            "vectors": DenseManifest(**vectors) if isinstance(vectors, dict) else None,
            "history": tuple(Change(**change) for change in history),
        }  # type: ignore[arg-type]  # a key of another name is a TypeError, met above
    )


def _checked(contents: IndexManifest, version: Path) -> IndexManifest:
    try:
        found = sizes(version)
    except OSError:  # it is being removed, since another has taken its place
        found = {}
    if contents.sizes != found:
        raise FormatError(
            version, 0, "a file is missing or has another size; build or copy it again"
        )
    return contents


def verified_manifest(version: Path, largest: float = LOOKED_AT) -> IndexManifest:
    """Do the same, and compare the hashes of files up to so many bytes."""
    contents = read_manifest(version)
    check_sums(version, contents.sums, largest)
    return contents


def sizes(version: Path) -> dict[str, int]:
    """Return the sizes of a version's files, in bytes."""
    return {name: path.stat().st_size for name, path in _files(version).items()}


def sums(version: Path, base: Path | None, known: Mapping[str, str]) -> dict[str, str]:
    """Return the hashes of a version's files; those known of its base, where a file is the same."""
    found = {}
    for name, path in _files(version).items():
        is_same = base is not None and name in known and path.samefile(base / name)
        found[name] = known[name] if is_same else sha256(path)
    return found


def _files(version: Path) -> dict[str, Path]:
    parts = (version / part for part in PARTS)
    files = (path for part in parts if part.exists() for path in sorted(part.iterdir()))
    kept = (path for path in files if not path.name.endswith(".lock"))
    return {f"{path.parent.name}/{path.name}": path for path in kept}
