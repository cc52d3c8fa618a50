import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("jpr", deadline=None)  # machines are noisy; speed is for benchmarks
settings.load_profile("jpr")
LONG = ("tests/test_docs_commands.py", "tests/test_benchmarks.py", "tests/models/kernels")
"""Tests that take many seconds each."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put long tests first in the share of each worker, so that none of them is the last to end."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    long = [item for item in items if item.nodeid.startswith(LONG)]
    short = [item for item in items if not item.nodeid.startswith(LONG)]
    items[:] = [
        item
        for worker in range(workers)
        for item in (
            *long[worker::workers],
            *short[len(short) * worker // workers : len(short) * (worker + 1) // workers],
        )
    ]


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny pipeline (`tests.serve.running.open_pipeline`), exported once."""
    from tests.serve.running import make_pipeline

    folder = tmp_path_factory.mktemp("served")
    make_pipeline(folder)
    return folder
