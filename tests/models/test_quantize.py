import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from jpr.models.quantize import LARGEST_INPUT, LARGEST_WEIGHT, quantize_matrix


def test_two_products_fit_sixteen_bits() -> None:
    assert 2 * LARGEST_INPUT * LARGEST_WEIGHT < 2**15


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.01, 100), st.integers(1, 40))
def test_the_error_of_a_product_is_small(seed: int, outlier: float, tokens: int) -> None:
    chance = torch.Generator().manual_seed(seed)
    inputs = torch.randn(tokens, 16, generator=chance)
    inputs[:, 3] *= outlier
    weight = torch.randn(8, 16, generator=chance)
    matrix = quantize_matrix(inputs, weight)
    scale = matrix.scale
    found = (scale.codes(inputs) @ matrix.codes.T) * matrix.steps * scale.step
    expected = inputs @ weight.T
    assert matrix.codes.abs().max() <= LARGEST_WEIGHT
    assert torch.equal(matrix.codes, matrix.codes.round())
    assert (found - expected).norm() <= 0.05 * expected.norm()
