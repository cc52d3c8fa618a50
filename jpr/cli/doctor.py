"""`jpr doctor`: what this machine can run, and what is missing."""

import os
import platform
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

import jpr
from jpr.cli import screen

NAME = "doctor"
HELP = """Tell what this machine can run, and how to get the rest.

Example: jpr doctor --json
"""
ASSETS = Path(jpr.__file__).parent / "assets"
MODELS = ("encoder", "joint")
"""The models that come with the package, each a folder of its assets."""
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
"""What each extra brings."""
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
"""Instruction sets that models profit from, by the flags that Linux has for them."""
_CAN = {
    "onnx": "models in ONNX, on the CPU",
    "checkpoints": "other checkpoints, with torch",
    "gpu_bf16": "on a GPU, in bf16",
}
_AMPERE = 8
"""The first generation of NVIDIA's that computes in bf16."""
_WIDTH = 200

Found = dict[str, Any]


def run(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Look and tell."""
    found = examine()
    if as_json:
        screen.say_json(found)
        return
    for name, text in _lines(found):
        screen.say(f"{name:<14}{text}")


def examine() -> Found:
    """Return what there is; null is what is absent or cannot be told."""
    onnxruntime = _library("onnxruntime", _of_onnxruntime)
    torch = _library("torch", _of_torch)
    return {
        "jpr": jpr.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": screen.workers(),
        "instruction_sets": instruction_sets(_cpuinfo()),
        "memory_gib": _memory(),
        "models": {name: _size(ASSETS / name) for name in MODELS},
        "onnxruntime": onnxruntime,
        "torch": torch,
        "extras": {name: all(map(find_spec, brings)) for name, brings in EXTRAS.items()},
        "can": _can(onnxruntime, torch),
    }


def _size(folder: Path) -> int | None:
    """Return the bytes of a model, None where there is none."""
    files = [file for file in folder.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files) if files else None


def _cpuinfo() -> str:
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def instruction_sets(cpuinfo: str) -> list[str] | None:
    """Read which instruction sets a processor has; None where the text does not say.

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
    """Return what a library says of itself, or why it cannot be used; None where it is absent."""
    if not find_spec(name):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # of a driver that is too old, say: there is no GPU then
            library = import_module(name)
            return {"version": str(library.__version__), **describe(library)}
    except (ImportError, AttributeError, OSError, RuntimeError) as error:
        return {"problem": " ".join(str(error).split())[:_WIDTH]}


def _of_onnxruntime(onnxruntime: Any) -> Found:  # noqa: ANN401  it may be absent
    return {"providers": onnxruntime.get_available_providers(), "threads": screen.workers()}


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
    """Judge by what works, not by what is installed."""
    gpus = (torch or {}).get("gpus")
    return {
        "onnx": bool(onnxruntime and "version" in onnxruntime),
        "checkpoints": gpus is not None and bool(find_spec("safetensors")),
        "gpu_bf16": any(gpu["bf16"] for gpu in gpus or ()),
    }


def _lines(found: Found) -> Iterator[tuple[str, str]]:
    """Say it to a person: a name and a sentence each."""
    yield "jpr", f"{found['jpr']} on Python {found['python']}, {found['system']}"
    units = found["instruction_sets"]
    told = "instruction sets unknown" if units is None else ", ".join(units) or "plain"
    memory = found["memory_gib"]
    yield "cores", f"{found['cores']} ({told})" + (f", {memory} GiB of memory" if memory else "")
    for name, size in found["models"].items():
        yield (
            name,
            f"{size / 1e6:.1f} MB, comes along" if size else "absent; name one by its folder",
        )
    yield "onnxruntime", _told(found["onnxruntime"], "absent: pip install onnxruntime")
    yield "torch", _told(found["torch"], "absent: pip install 'jpr[train]'")
    for name, there in found["extras"].items():
        brings = ", ".join(EXTRAS[name])
        yield f"[{name}]", brings if there else f"{brings}: pip install 'jpr[{name}]'"
    for what, works in found["can"].items():
        yield "runs" if works else "does not run", _CAN[what]


def _told(library: Found | None, absent: str) -> str:
    if library is None:
        return absent
    if "problem" in library:
        return f"cannot be loaded: {library['problem']}"
    if "providers" in library:
        parts = [*library["providers"], f"{library['threads']} threads"]
    else:
        parts = [_told_gpu(gpu) for gpu in library["gpus"]] or ["no GPU"]
    return f"{library['version']}: {', '.join(parts)}"


def _told_gpu(gpu: Found) -> str:
    return f"{gpu['name']} ({gpu['memory_gib']} GiB, {'bf16' if gpu['bf16'] else 'no bf16'})"
