from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("jpr", deadline=None)  # machines are noisy; speed is for benchmarks
settings.load_profile("jpr")


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny pipeline (`tests.serve.running.open_pipeline`), exported once."""
    from tests.serve.running import make_pipeline

    folder = tmp_path_factory.mktemp("served")
    make_pipeline(folder)
    return folder
