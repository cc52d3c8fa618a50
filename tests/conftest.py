from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("jpr", deadline=None)  # machines are noisy; speed is for benchmarks
settings.load_profile("jpr")


_LONGEST = ("test_docs_commands.py", "test_benchmarks.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest, so that no process is left waiting for it in the end."""
    items.sort(key=lambda item: item.path.name not in _LONGEST)


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny pipeline (`tests.serve.running.open_pipeline`), exported once."""
    from tests.serve.running import make_pipeline

    folder = tmp_path_factory.mktemp("served")
    make_pipeline(folder)
    return folder
