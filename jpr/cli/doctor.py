"""`jpr doctor`."""

import os
import platform
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jpr
from jpr.cli import files, output
from jpr.cli.arguments import Arguments, Json, argument, option
from jpr.errors import ConfigError, FormatError
from jpr.io.locks import DOCUMENTS, cache_folder
from jpr.types import Ranking

ASSETS = Path(jpr.__file__).parent / "assets"
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

_CACHE = "cache"

Found = dict[str, Any]


class DoctorArguments(Arguments):
    index: str | None = argument(
        "Folder of an index to check, or the word cache (./cache is a folder).", default=None
    )
    days: int | None = argument(
        "With cache: remove indexes of missing folders, or not used for this number of days.",
        default=None,
    )
    questions: Path | None = option(
        "Input", "Questions with answers: which retriever of the index finds them?", "-q"
    )
    json: Json = False

    def __post_init__(self) -> None:
        if self.questions is not None and self.index in (None, _CACHE):
            raise ConfigError("--questions needs an index: jpr doctor INDEX --questions FILE")
        if self.days is not None and (self.index != _CACHE or self.days < 0):
            raise ConfigError(f"{self.days}: give days of 0 or more, after the word cache")


def run(options: DoctorArguments) -> None:
    """Show what this machine can run, check an index, or list and prune the cache.

    An index is checked completely: format, checksums of all files, number of passages, and
    whether its encoder is found. Exit code 2 if its encoder is missing or it is damaged: every
    damaged file is named, and `jpr index --out INDEX --set repair=true` makes what it can again.
    With --questions, retrievers are compared: how often do 5 and 10 passages cover every answer?

    `jpr doctor cache` lists the indexes that --docs made: last use, size, folder of the documents.

    Example: jpr doctor --json
    Example: jpr doctor wiki
    Example: jpr doctor wiki --questions dev.jsonl
    Example: jpr doctor cache 30
    """
    index = Path(options.index) if options.index not in (None, _CACHE) else None
    if options.index == _CACHE:
        found = _cache(options.days)
        lines = _cache_lines(found)
    elif index is None:
        found = examine()
        lines = _lines(found)
    else:
        from jpr.retrieve.describe import describe_index

        found = describe_index(index)
        lines = _index_lines(found)
    if index and options.questions and "problem" not in found:
        _compare_retrievers(index, options.questions, found, options.json)
    elif options.json:
        output.write_json(found)
    else:
        for name, text in lines:
            output.write(f"{name:<14}{text}")
    if index is not None and (problem := found.get("problem")):
        raise FormatError(index, 0, problem)


def _cache(days: int | None) -> Found:
    """Remove indexes of documents, if days are given, and return those that are left."""
    from jpr.retrieve.document_cache import CachedIndex, cached_indexes, prune

    def record(one: CachedIndex) -> Found:
        used = datetime.fromtimestamp(one.used, UTC).isoformat(timespec="seconds")
        folder = str(one.folder) if one.folder else None
        return {"used": used, "bytes": one.size, "folder": folder, "index": str(one.place)}

    home = cache_folder() / DOCUMENTS
    removed = [] if days is None else list(map(record, prune(home, days)))
    left = list(map(record, cached_indexes(home)))
    return {"cache": str(home), "indexes": left, "removed": removed}


def _cache_lines(found: Found) -> Iterator[tuple[str, str]]:
    yield "cache", found["cache"]
    for what, ones in (("removed", found["removed"]), ("", found["indexes"])):
        for one in ones:
            folder = one["folder"] or f"unfinished: {one['index']}"
            yield what or one["used"][:10], f"{one['bytes'] / 1e6:8,.1f} MB  {folder}"


def _compare_retrievers(index: Path, file: Path, found: Found, json: bool) -> None:
    """Score every retriever of an index on questions, against the one that is the default."""
    from jpr.evaluation import tables
    from jpr.evaluation.measures import MRecall

    questions, measures = files.load_searchable(file), [MRecall @ 5, MRecall @ 10]
    kinds = [kind for kind, part in (("bm25", "lexical"), ("dense", "dense")) if found[part]]
    kinds = ["hybrid", *kinds] if len(kinds) > 1 else kinds
    runs: dict[str, list[Ranking]] = {kind: [] for kind in kinds}
    with output.progress("retrieving", len(kinds) * len(questions)) as progress:
        for kind, run in runs.items():
            for ranking in jpr.open_retriever(index, kind).retrieve_many(questions, 100):
                run.append(ranking)
                progress(1)
        evaluation = jpr.evaluate(questions, runs, measures, cache=cache_folder())
    compared = jpr.compare(evaluation, kinds[0])
    if json:
        output.write_json({**found, "retrievers": tables.as_json(evaluation, compared)})
        return
    output.write(tables.as_text(evaluation, compared, output.table))
    best = max(evaluation.runs, key=lambda run: evaluation.scores(run)[0].value).name
    output.note(f"{best} has the highest {measures[0]!r}; this index uses {kinds[0]} by default")


def _index_lines(found: Found) -> Iterator[tuple[str, str]]:
    for name, value in found.items():
        parts = value.items() if isinstance(value, dict) else ()
        text = ", ".join(f"{key} {part}" for key, part in parts) or str(value)
        yield name, "absent" if value is None or value is False else text


def examine() -> Found:
    """Return what is installed; null is absent or unknown."""
    from jpr.io.manifest import usable_cores

    cores = usable_cores()
    onnxruntime = _library(
        "onnxruntime", lambda it: {"providers": it.get_available_providers(), "threads": cores}
    )
    torch = _library("torch", _of_torch)
    gpus = torch.get("gpus") if torch else None
    cpuinfo, memory = "", None
    with suppress(OSError):  # only Linux has it
        cpuinfo = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    with suppress(AttributeError, OSError, ValueError):
        memory = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    return {
        "jpr": jpr.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": cores,
        "instruction_sets": instruction_sets(cpuinfo),
        "memory_gib": memory,
        "models": {name: files.size_of(ASSETS / name) or None for name in ("encoder", "joint")},
        "onnxruntime": onnxruntime,
        "torch": torch,
        "extras": {name: all(map(find_spec, brings)) for name, brings in EXTRAS.items()},
        "can": {
            "onnx": bool(onnxruntime and "version" in onnxruntime),
            "checkpoints": gpus is not None and bool(find_spec("safetensors")),
            "gpu_bf16": any(gpu["bf16"] for gpu in gpus or ()),
        },
    }


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
        return {"problem": " ".join(str(error).split())[:200]}


def _of_torch(torch: Any) -> Found:  # noqa: ANN401  it may be absent
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    gpus = [
        {"name": g.name, "memory_gib": round(g.total_memory / 2**30, 1), "bf16": g.major >= 8}
        for g in map(torch.cuda.get_device_properties, range(count))
    ]
    return {"gpus": gpus}  # bf16 is there since Ampere, version 8


def _lines(found: Found) -> Iterator[tuple[str, str]]:
    yield "jpr", f"{found['jpr']} on Python {found['python']}, {found['system']}"
    units = found["instruction_sets"]
    units_text = "instruction sets unknown" if units is None else ", ".join(units) or "plain"
    memory = f", {found['memory_gib']} GiB of memory" if found["memory_gib"] else ""
    yield "cores", f"{found['cores']} ({units_text}){memory}"
    absent = "absent; give a folder with --model"
    for name, size in found["models"].items():
        yield name, f"{size / 1e6:.1f} MB, bundled" if size else absent
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
    parts = [
        f"{gpu['name']} ({gpu['memory_gib']} GiB, {'bf16' if gpu['bf16'] else 'no bf16'})"
        for gpu in library.get("gpus", ())
    ]
    if "providers" in library:
        parts = [*library["providers"], f"{library['threads']} threads"]
    return f"{library['version']}: {', '.join(parts) or 'no GPU'}"
