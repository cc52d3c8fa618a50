"""What an index holds, after a complete check of its files and its encoder."""

from pathlib import Path
from typing import Any

from jpr.encode.encoder_folder import load_encoder
from jpr.errors import FormatError, JprError
from jpr.retrieve.engines import FILES, MILVUS, engine_of
from jpr.retrieve.index import Index
from jpr.retrieve.index_manifest import PARTS, IndexManifest, find_damage, load_manifest
from jpr.retrieve.milvus_retriever import NAME, read_milvus_manifest
from jpr.retrieve.repair import describe_damage
from jpr.retrieve.versions import open_current


def describe_index(folder: Path) -> dict[str, Any]:
    """Return what an index holds; raise FormatError if it is damaged."""
    if engine_of(folder) == MILVUS:
        remote = read_milvus_manifest(folder / NAME)
        return {
            "index": str(folder),
            "engine": MILVUS,
            "format": remote.format,
            "passages": remote.passages,
            "lexical": False,
            "dense": {"uri": remote.uri, "dimension": remote.dimension, "kind": remote.graph},
            **_encoder(remote.encoder, remote.key),
        }
    manifest = open_current(folder, lambda version: _undamaged(folder, version))
    Index(folder)  # opens every part and compares the numbers of passages
    parts = dict.fromkeys(PARTS, 0)
    for name, size in manifest.sizes.items():
        parts[name.partition("/")[0]] += size
    dense = manifest.vectors
    needed = _encoder(dense.encoder, dense.key) if dense else {"encoder": None}
    about = dense and {"dimension": dense.dimension, "kind": dense.kind, "recall": dense.recall}
    return {
        "index": str(folder),
        "engine": FILES,
        "format": manifest.format,
        "passages": manifest.passages,
        "removed": manifest.rows - manifest.passages,
        "checksums": len(manifest.sums),
        "bytes": parts,
        "lexical": True,
        "dense": about,
        **needed,
    }


def _undamaged(folder: Path, version: Path) -> IndexManifest:
    manifest = load_manifest(version)
    if damage := find_damage(version, manifest):
        raise FormatError(version, 0, describe_damage(folder, damage))
    return manifest


def _encoder(folder: str, key: str) -> dict[str, Any]:
    """Return the encoder that an index needs, and the problem if it is not found."""
    needed = {"folder": folder or "bundled", "key": key, "found": False}
    try:
        found = load_encoder(folder or None, "cpu").key
    except JprError as error:
        return {"encoder": needed, "problem": f"its encoder cannot be loaded: {error}"}
    if found != key:
        problem = f"needs encoder {key}, but {folder or 'bundled'} is {found}"
        return {"encoder": needed, "problem": problem}
    return {"encoder": {**needed, "found": True}}
