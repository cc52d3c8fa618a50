import pytest

from jpr.rerank.joint import JointReranker
from tests.rerank.tiny import write_pointer


@pytest.fixture(scope="session")
def joint(tmp_path_factory: pytest.TempPathFactory) -> JointReranker:
    """A tiny random joint model."""
    return JointReranker.load(write_pointer(tmp_path_factory.mktemp("joint")), device="cpu")
