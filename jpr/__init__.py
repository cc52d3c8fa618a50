"""Multi-answer retrieval: the k passages that together cover every distinct answer.

The public names stand in `__init__.pyi`, beside this file. Each is loaded when it is first used, so
that `import jpr` and `jpr --help` cost nothing.
"""

from importlib import import_module
from pathlib import Path

__version__ = "0.2.0"

_LINES = Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8").splitlines()
_HOMES = {line.split()[-1]: line.split()[1] for line in _LINES if line.startswith("from ")}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'jpr' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
