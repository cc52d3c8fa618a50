"""The span head in numpy: the same logits as in torch."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from jpr.models.heads import SpanHead
from jpr.models.onnx_export import span_weights
from jpr.rerank.span_logits import span_logits

D = 12


def test_spans_by_hand() -> None:
    """Rank 1, spans of at most two tokens, passages of two tokens and of one."""
    projected = np.array([[1, 10, 2, 3], [2, 20, 4, 5], [3, 30, 6, 7]], dtype=np.float32)
    bias, lengths = np.array([0.5, 0.25], np.float32), np.array([0, 100], np.float32)
    found = span_logits(projected, bias, lengths, np.array([2, 0, 1]))
    assert found.dtype == np.float32
    assert found.tolist() == [
        [1.5 + 10.25 + 2 * 3, 1.5 + 20.25 + 2 * 5 + 100],
        [2.5 + 20.25 + 4 * 5, -np.inf],
        [3.5 + 30.25 + 6 * 7, -np.inf],
    ]


def test_no_passages() -> None:
    none, three = np.zeros((0, 4), np.float32), np.zeros(3, np.float32)
    assert span_logits(none, three[:2], three, np.array([], np.int64)).shape == (0, 3)
    assert span_logits(none, three[:2], three, np.array([0, 0])).shape == (0, 3)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.integers(1, 6), st.integers(0, 99))
def test_they_are_those_of_torch(sizes: list[int], longest: int, seed: int) -> None:
    """In torch every passage has two tokens before it and one after it."""
    torch.manual_seed(seed)
    head, rows = SpanHead(D, rank=8, longest=longest), torch.tensor(sizes)
    torch.nn.init.normal_(head.lengths)
    hidden = torch.randn(int((rows + 3).sum()), D)
    row = torch.repeat_interleave(rows + 3)
    position = torch.cat([torch.arange(n + 3) for n in sizes])
    inside = (position >= 2) & (position < rows[row] + 2)
    with torch.no_grad():
        expected = head(hidden, rows + 3, torch.full_like(rows, 2))
    weights = span_weights(head)
    projected = hidden[inside].numpy() @ weights.project
    found = span_logits(projected, weights.bias, weights.lengths, rows.numpy())
    assert bool(expected[~inside].isneginf().all())
    np.testing.assert_allclose(found, expected[inside].numpy(), atol=1e-4)
