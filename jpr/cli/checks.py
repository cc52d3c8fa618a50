"""Checks of arguments that several commands share."""

from collections.abc import Collection
from dataclasses import fields
from pathlib import Path
from typing import Any

from jpr.errors import ConfigError


def label(name: str) -> str:
    """Return the option of an argument as it is typed: `-k`, `--token-file`, `--from`."""
    dashed = name.rstrip("_").replace("_", "-")
    return f"-{dashed}" if len(dashed) == 1 else f"--{dashed}"


def positive_k(k: int) -> None:
    """Reject a number of passages below 1."""
    if k < 1:
        raise ConfigError(f"-k {k}: must be at least 1")


def one_source(docs: Path | None, index: Path | None) -> None:
    """Reject two things to search."""
    if docs is not None and index is not None:
        raise ConfigError("--docs and --index exclude each other; give one of them")


def separate(out: Path | None, *others: Path | None) -> None:
    """Reject an output file that is also an input, or another output."""
    for path in others:
        if out is None or path is None:
            continue
        is_same = out.resolve() == path.resolve()
        if out.exists() and path.exists():  # a terminal may be both input and output
            is_same = out.is_file() and out.samefile(path)
        if is_same:
            raise ConfigError(f"{out} is also another file of this command; choose another name")


def one_of(option: str, given: str | None, choices: Collection[str]) -> None:
    """Reject a value that is not among the choices."""
    if given is not None and given not in choices:
        raise ConfigError(f"{option}{given}: choose one of {', '.join(choices)}")


def reject(why: str, arguments: Any, *names: str) -> None:  # noqa: ANN401  a command's dataclass
    """Reject arguments that would have no effect: those of these names that are not the default."""
    defaults = {one.name: one.default for one in fields(arguments)}
    given = [name for name in names if getattr(arguments, name) != defaults[name]]
    if given:
        labels = (name if name == "runs" else label(name) for name in given)
        raise ConfigError(f"{', '.join(labels)}: {why}")
