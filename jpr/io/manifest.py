"""Provenance of a published number: code, data, versions, machine."""

import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from jpr.io.checksums import sha256


def manifest(
    command: str, inputs: Mapping[str, Path], seconds: float, *, packages: tuple[str, ...] = ()
) -> dict[str, object]:
    """Return the manifest of a run."""
    return {
        "command": command,
        "commit": commit(),
        "inputs": {name: sha256(path) for name, path in inputs.items()},
        "versions": {
            "python": platform.python_version(),
            **{name: _version(name) for name in ("jpr", "numpy", "regex", "tokenizers", *packages)},
        },
        "machine": f"{_processor()}, {os.cpu_count()} cores, {sys.platform}",
        "seconds": round(seconds, 1),
    }


def commit() -> str:
    """Return the commit of the code in use, marked if files differ from it."""
    folder = Path(__file__).parent
    git = ["git", "-C", str(folder), "describe", "--always", "--abbrev=12", "--dirty"]
    try:
        return subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def usable_cores() -> int:
    """Return the number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()
