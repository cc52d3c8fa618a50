"""Make the damaged parts of an index again from the whole ones, as its next version.

The lexical part is made of the store, the dense part of vectors; the store cannot be made again.
"""

from dataclasses import replace
from pathlib import Path

from jpr.errors import ConfigError, DataError, FormatError
from jpr.formats.corpus.store import PassageStore
from jpr.io.atomic import link
from jpr.retrieve.bm25 import Bm25Writer
from jpr.retrieve.index_manifest import (
    PARTS,
    Change,
    DenseManifest,
    IndexManifest,
    find_damage,
    load_manifest,
    write_manifest,
)
from jpr.retrieve.version_writer import MakeVectors
from jpr.retrieve.versions import next_version


def repair_index(folder: Path, vectors: MakeVectors, encoder: str) -> IndexManifest:
    """Publish a version without damage, whose last change names the parts that were made again.

    `vectors` is called only if the dense part is damaged; `encoder` is the folder of its encoder.
    """
    with next_version(folder) as (base, version):
        if base is None:
            raise ConfigError(f"{folder}: no index to repair; build one first")
        before = load_manifest(base)
        damage = find_damage(base, before)
        damaged = [part for part in PARTS if any(n.startswith(f"{part}/") for n in damage)]
        if "store" in damaged:
            raise FormatError(folder, 0, describe_damage(folder, damage))
        for name in before.sizes:
            (version / name).parent.mkdir(exist_ok=True)
            if name.partition("/")[0] not in damaged:
                link(base / name, version / name)
        store, dense = PassageStore(version / "store"), before.vectors
        if "bm25" in damaged:
            _write_lexical(store, version / "bm25")
        if "vectors" in damaged and dense:
            made = _write_dense(store, dense, vectors, before.corpus_sha256, version / "vectors")
            dense = replace(made, encoder=encoder)
        history = (*before.history, Change("repair", ", ".join(damaged), 0, 0))
        return write_manifest(version, replace(before, vectors=dense, history=history), base)


def describe_damage(folder: Path, damage: dict[str, str]) -> str:
    """Say what is damaged in an index, and what to do."""
    each = [f"{name} {problem}" for name, problem in sorted(damage.items())]
    which = "; ".join(each[:5]) + (f"; {len(each) - 5} more files" if each[5:] else "")
    if any(name.startswith("store/") for name in damage):
        return f"{which}; the passages cannot be made again: copy a backup here or index the corpus"
    return f"{which}; make it again with: jpr index --out {folder} --set repair=true"


def _write_lexical(store: PassageStore, folder: Path) -> None:
    with Bm25Writer(folder) as writer:
        for row in sorted(store.rows.tolist()):
            writer.add(row, store[row])
        writer.close()


def _write_dense(
    store: PassageStore, known: DenseManifest, vectors: MakeVectors, digest: str, folder: Path
) -> DenseManifest:
    """Write the vectors of all rows, those of removed passages included."""
    from jpr.retrieve.dense import write_vectors  # a lexical index works without faiss

    found = vectors((store[row] for row in range(store.end)), store.end, digest)
    if (found.key, found.dimension, len(found)) != (known.key, known.dimension, store.end):
        problem = f"the index has {store.end:,} vectors of encoder {known.key}"
        raise DataError(f"{problem}, not {len(found):,} of {found.key}; use those")
    return write_vectors(found, folder, nprobe=known.nprobe or None)
