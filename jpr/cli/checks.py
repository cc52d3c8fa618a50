"""Checks of arguments that several commands share."""

from collections.abc import Mapping
from pathlib import Path

from jpr.errors import ConfigError


def check_k(k: int) -> None:
    """Reject a number of passages below 1."""
    if k < 1:
        raise ConfigError(f"-k {k}: must be at least 1")


def check_source(docs: Path | None, index: Path | None) -> None:
    """Reject two things to search."""
    if docs is not None and index is not None:
        raise ConfigError("--docs and --index exclude each other; give one of them")


def check_out(out: Path, *inputs: Path | None) -> None:
    """Reject an output file that is also read."""
    for path in inputs:
        if path is not None and path.exists() and out.exists() and out.samefile(path):
            raise ConfigError(f"--out {out} is also an input file; choose another name")


def reject(why: str, options: Mapping[str, object]) -> None:
    """Reject options that would have no effect."""
    given = [name for name, value in options.items() if value is not None and value is not False]
    if given:
        raise ConfigError(f"{', '.join(given)}: {why}")
