from collections.abc import Iterator
from pathlib import Path

import pytest

from jpr.pipeline import Pipeline
from tests.serve.running import open_pipeline, running


@pytest.fixture(scope="session")
def pipeline(served: Path) -> Pipeline:
    return open_pipeline(served)


@pytest.fixture(scope="session")
def url(pipeline: Pipeline) -> Iterator[str]:
    with running(pipeline) as address:
        yield address
