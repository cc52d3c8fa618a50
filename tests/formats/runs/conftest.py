import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

Save = Callable[..., Path]


@pytest.fixture
def save(tmp_path: Path) -> Save:
    """Write a file for a test, compressed if its name says so, and return its path."""

    def _save(content: str | bytes, name: str = "run") -> Path:
        path = tmp_path / name
        data = content.encode() if isinstance(content, str) else content
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    return _save
