"""`jpr doctor`."""

import os
import platform
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from math import inf
from pathlib import Path
from typing import Annotated, Any

import jpr
from jpr.cli import output
from jpr.cli.arguments import Json, argument
from jpr.errors import FormatError, JprError

ASSETS = Path(jpr.__file__).parent / "assets"
MODELS = ("encoder", "joint")
"""Bundled models, each a folder of the assets."""
EXTRAS = {
    "train": ("torch", "safetensors", "onnx"),
    "diversify": ("pyversity",),
    "dask": ("distributed",),
    "milvus": ("pymilvus",),
    "plot": ("matplotlib",),
    "documents": ("lxml", "pypdf", "docx"),
    "haystack": ("haystack",),
    "langchain": ("langchain_core",),
    "llamaindex": ("llama_index",),
    "pyterrier": ("pyterrier",),
    "rerankers": ("rerankers",),
    "serve": ("fastapi", "prometheus_client", "python_multipart", "starlette", "uvicorn"),
    "mcp": ("mcp",),
}
"""The modules of each extra."""
_UNITS = {
    "AVX2": ("avx2",),
    "AVX-512": ("avx512f",),
    "VNNI": ("avx512_vnni", "avx_vnni"),
    "BF16": ("avx512_bf16", "amx_bf16", "bf16"),
    "AMX": ("amx_tile",),
    "NEON": ("asimd",),
    "dot product": ("asimddp",),
    "I8MM": ("i8mm",),
}
"""Instruction sets that speed up models, by their flags in Linux."""
_CAN = {
    "onnx": "models in ONNX, on the CPU",
    "checkpoints": "other checkpoints, with torch",
    "gpu_bf16": "on a GPU, in bf16",
}
_AMPERE = 8
"""First NVIDIA generation with bf16."""
_WIDTH = 200

Found = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class DoctorArguments:
    """What `jpr doctor` takes."""

    index: Annotated[Path | None, argument("Folder of an index to check.")] = None
    json: Json = False


def run(options: DoctorArguments) -> None:
    """Show what this machine can run, or check an index.

    An index is checked completely: format, checksums of all files, number of passages, and
    whether its encoder is found. Exit code 2 if it is damaged or its encoder is missing.

    Example: jpr doctor --json

    Example: jpr doctor wiki
    """
    found = examine() if options.index is None else examine_index(options.index)
    if options.json:
        output.write_json(found)
    else:
        for name, text in _lines(found) if options.index is None else _index_lines(found):
            output.write(f"{name:<14}{text}")
    if problem := found.get("problem"):
        raise FormatError(options.index or Path(), 0, problem)


def examine_index(folder: Path) -> Found:
    """Return what an index holds; raise FormatError if it is damaged."""
    from jpr.retrieve.engines import MILVUS, engine_of

    if engine_of(folder) == MILVUS:
        from jpr.retrieve.milvus_retriever import NAME, read_milvus_manifest

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
    from jpr.retrieve.index import Index
    from jpr.retrieve.index_manifest import verified_manifest
    from jpr.retrieve.versions import open_current

    manifest = open_current(folder, lambda version: verified_manifest(version, inf))
    Index(folder)  # opens every part and compares the numbers of passages
    parts = {name: 0 for name in ("store", "bm25", "vectors")}
    for name, size in manifest.sizes.items():
        parts[name.partition("/")[0]] += size
    dense = manifest.vectors
    return {
        "index": str(folder),
        "engine": "files",
        "format": manifest.format,
        "passages": manifest.passages,
        "removed": manifest.rows - manifest.passages,
        "checksums": len(manifest.sums),
        "bytes": parts,
        "lexical": True,
        "dense": dense
        and {"dimension": dense.dimension, "kind": dense.kind, "recall": dense.recall},
        **(_encoder(dense.encoder, dense.key) if dense else {"encoder": None}),
    }


def _encoder(folder: str, key: str) -> Found:
    """Return the encoder that an index needs, and the problem if it is not found."""
    from jpr.encode.encoder_folder import load_encoder

    needed = {"encoder": {"folder": folder or "bundled", "key": key, "found": False}}
    try:
        found = load_encoder(folder or None, "cpu").key
    except JprError as error:
        return {**needed, "problem": f"its encoder cannot be loaded: {error}"}
    if found != key:
        return {**needed, "problem": f"needs encoder {key}, but {folder or 'bundled'} is {found}"}
    return {"encoder": {**needed["encoder"], "found": True}}


def _index_lines(found: Found) -> Iterator[tuple[str, str]]:
    for name, value in found.items():
        parts = value.items() if isinstance(value, dict) else ()
        text = ", ".join(f"{key} {part}" for key, part in parts) or str(value)
        yield name, "absent" if value is None or value is False else text


def examine() -> Found:
    """Return what is installed; null is absent or unknown."""
    onnxruntime = _library("onnxruntime", _of_onnxruntime)
    torch = _library("torch", _of_torch)
    return {
        "jpr": jpr.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": output.cpu_count(),
        "instruction_sets": instruction_sets(_cpuinfo()),
        "memory_gib": _memory(),
        "models": {name: _size(ASSETS / name) for name in MODELS},
        "onnxruntime": onnxruntime,
        "torch": torch,
        "extras": {name: all(map(find_spec, brings)) for name, brings in EXTRAS.items()},
        "can": _can(onnxruntime, torch),
    }


def _size(folder: Path) -> int | None:
    """Return the bytes of a model; None if it is absent."""
    files = [file for file in folder.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files) if files else None


def _cpuinfo() -> str:
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def instruction_sets(cpuinfo: str) -> list[str] | None:
    """Return the instruction sets of a processor; None if unknown.

    >>> instruction_sets("model name: x\\nflags\\t: fpu avx2 avx512_vnni\\n")
    ['AVX2', 'VNNI']
    """
    for line in cpuinfo.splitlines():
        name, _, flags = line.partition(":")
        if name.strip() in ("flags", "Features"):
            has = set(flags.split())
            return [unit for unit, any_of in _UNITS.items() if not has.isdisjoint(any_of)]
    return None


def _memory() -> float | None:
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None
    return round(total / 2**30, 1)


def _library(name: str, describe: Callable[[Any], Found]) -> Found | None:
    """Return a library's version and devices, or why it cannot be used; None if it is absent."""
    if not find_spec(name):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # for example of a driver that is too old
            library = import_module(name)
            return {"version": str(library.__version__), **describe(library)}
    except (ImportError, AttributeError, OSError, RuntimeError) as error:
        return {"problem": " ".join(str(error).split())[:_WIDTH]}


def _of_onnxruntime(onnxruntime: Any) -> Found:  # noqa: ANN401  it may be absent
    return {"providers": onnxruntime.get_available_providers(), "threads": output.cpu_count()}


def _of_torch(torch: Any) -> Found:  # noqa: ANN401  it may be absent
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return {"gpus": [_gpu(torch.cuda.get_device_properties(i)) for i in range(count)]}


def _gpu(properties: Any) -> Found:  # noqa: ANN401  torch may be absent
    return {
        "name": properties.name,
        "memory_gib": round(properties.total_memory / 2**30, 1),
        "bf16": properties.major >= _AMPERE,
    }


def _can(onnxruntime: Found | None, torch: Found | None) -> dict[str, bool]:
    """Return what works, whatever is installed."""
    gpus = (torch or {}).get("gpus")
    return {
        "onnx": bool(onnxruntime and "version" in onnxruntime),
        "checkpoints": gpus is not None and bool(find_spec("safetensors")),
        "gpu_bf16": any(gpu["bf16"] for gpu in gpus or ()),
    }


def _lines(found: Found) -> Iterator[tuple[str, str]]:
    """Yield a name and a text for each line."""
    yield "jpr", f"{found['jpr']} on Python {found['python']}, {found['system']}"
    units = found["instruction_sets"]
    units_text = "instruction sets unknown" if units is None else ", ".join(units) or "plain"
    memory = found["memory_gib"]
    yield (
        "cores",
        f"{found['cores']} ({units_text})" + (f", {memory} GiB of memory" if memory else ""),
    )
    for name, size in found["models"].items():
        yield (
            name,
            f"{size / 1e6:.1f} MB, bundled" if size else "absent; give a folder with --model",
        )
    yield "onnxruntime", _library_text(found["onnxruntime"], "absent: pip install onnxruntime")
    yield "torch", _library_text(found["torch"], "absent: pip install 'jpr[train]'")
    for name, there in found["extras"].items():
        brings = ", ".join(EXTRAS[name])
        yield f"[{name}]", brings if there else f"{brings}: pip install 'jpr[{name}]'"
    for what, works in found["can"].items():
        yield "runs" if works else "does not run", _CAN[what]


def _library_text(library: Found | None, absent: str) -> str:
    if library is None:
        return absent
    if "problem" in library:
        return f"cannot be loaded: {library['problem']}"
    if "providers" in library:
        parts = [*library["providers"], f"{library['threads']} threads"]
    else:
        parts = [_gpu_text(gpu) for gpu in library["gpus"]] or ["no GPU"]
    return f"{library['version']}: {', '.join(parts)}"


def _gpu_text(gpu: Found) -> str:
    return f"{gpu['name']} ({gpu['memory_gib']} GiB, {'bf16' if gpu['bf16'] else 'no bf16'})"
