from collections.abc import Iterator

import pytest

from jpr.pipeline import Pipeline
from tests.serve.running import make_pipeline, running


@pytest.fixture(scope="session")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    return make_pipeline(tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="session")
def url(pipeline: Pipeline) -> Iterator[str]:
    with running(pipeline) as address:
        yield address
