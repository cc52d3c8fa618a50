"""Provenance of a published number: code, data, versions, machine."""

import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from jpr.io.checksums import sha256

_PACKAGES = ("jpr", "numpy", "regex", "tokenizers")


def manifest(
    command: str, inputs: Mapping[str, Path], seconds: float, *, packages: tuple[str, ...] = ()
) -> dict[str, object]:
    """Return the manifest of a run."""
    return {
        "command": command,
        "commit": commit(),
        "inputs": {name: sha256(path) for name, path in inputs.items()},
        "versions": {"python": platform.python_version(), **_versions((*_PACKAGES, *packages))},
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


def _versions(packages: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "absent"
    return found


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()
