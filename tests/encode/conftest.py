import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    """Tiny matrices are multiplied faster than threads are woken."""
    torch.set_num_threads(1)
