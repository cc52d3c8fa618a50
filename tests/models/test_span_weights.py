"""The file of a span head, which numpy writes and reads."""

import time
from pathlib import Path

import numpy as np
import pytest
import torch

from jpr.errors import FormatError
from jpr.models.heads import SpanHead
from jpr.models.onnx_export import span_weights
from jpr.models.span_weights import SpanWeights

WEIGHTS = SpanWeights(
    np.arange(40, dtype=np.float32).reshape(4, 10),  # 4 numbers, rank 4
    np.array([-3, -2], dtype=np.float32),
    np.zeros(5, dtype=np.float32),
)


def test_columns_are_begin_end_first_and_last() -> None:
    head, x = SpanHead(6, rank=4, longest=3), torch.randn(2, 6)
    found = span_weights(head)
    assert found.project.shape == (6, 10)
    begin, end, *both = (torch.from_numpy(found.project).T @ x[..., None]).squeeze(-1).T
    torch.testing.assert_close(torch.stack([begin, end], 1), x @ head.ends.weight.T)
    product = (torch.stack(both[:4]) * torch.stack(both[4:]).roll(-1, 1)).sum(0)[0]
    torch.testing.assert_close(product, head.first(x[0]) @ head.last(x[1]) / 2)
    assert found.bias.tolist() == [-3.0, -3.0]
    assert found.lengths.tolist() == [0.0] * 3


def test_the_same_weights_are_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    WEIGHTS.write(tmp_path / "one.npz")
    now = time.time()
    monkeypatch.setattr("time.time", lambda: now + 1e6)
    WEIGHTS.write(tmp_path / "other.npz")
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "other.npz").read_bytes()
    read = SpanWeights.read(tmp_path / "one.npz", 4)
    assert np.array_equal(read.project, WEIGHTS.project)
    assert np.array_equal(read.bias, WEIGHTS.bias)
    assert np.array_equal(read.lengths, WEIGHTS.lengths)


@pytest.mark.parametrize(
    ("arrays", "problem"),
    [
        ({"bias": np.zeros(3, np.float32)}, "shapes"),
        ({"lengths": np.zeros(0, np.float32)}, "shapes"),
        ({"lengths": np.zeros((5, 1), np.float32)}, "shapes"),
        ({"project": np.zeros((4, 9), np.float32)}, "shapes"),
        ({"project": np.zeros((5, 10), np.float32)}, "vectors of 4 numbers"),
        ({"project": np.zeros((4, 10))}, "float32"),
        ({"lengths": np.full(5, np.nan, np.float32)}, "finite"),
        ({"bias": np.array(["a", "b"])}, "float32"),
        ({"bias": np.array([None, 1])}, "does not hold"),
    ],
)
def test_arrays_of_something_else_are_refused(
    tmp_path: Path, arrays: dict[str, np.ndarray], problem: str
) -> None:
    given = {"project": WEIGHTS.project, "bias": WEIGHTS.bias, "lengths": WEIGHTS.lengths}
    np.savez(tmp_path / "spans.npz", allow_pickle=True, **{**given, **arrays})
    with pytest.raises(FormatError, match=rf"spans\.npz: .*{problem}"):
        SpanWeights.read(tmp_path / "spans.npz", 4)


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "spans.npz"
    WEIGHTS.write(file)
    whole = file.read_bytes()
    for size in (0, 10, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:size])
        with pytest.raises(FormatError, match="export the model again"):
            SpanWeights.read(file, 4)
    np.savez(file, project=WEIGHTS.project)
    with pytest.raises(FormatError, match="bias"):
        SpanWeights.read(file, 4)
    np.save(tmp_path / "array.npy", WEIGHTS.project)
    with pytest.raises(FormatError, match="does not hold"):
        SpanWeights.read(tmp_path / "array.npy", 4)
    with pytest.raises(FormatError, match="is missing"):
        SpanWeights.read(tmp_path / "none.npz", 4)
