from itertools import combinations, pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from jpr.errors import DataError
from jpr.models.padding import Grouping, layout, parts, row_lengths

LENGTHS = st.lists(st.integers(0, 50), min_size=1, max_size=9)
GRAINS = st.builds(Grouping, st.integers(1, 8), st.integers(0, 60), st.integers(1, 100))


def test_by_hand() -> None:
    """Rows of 5, 2 and 2 tokens: the short ones together, then the long one."""
    found = layout(np.array([5, 2, 2]), Grouping(multiple=1, price=1, budget=100))
    assert found.shapes == ((2, 2), (1, 5))
    assert found.lengths.tolist() == [2, 2, 5]
    assert found.slots.tolist() == [4, 5, 6, 7, 8, 0, 1, 2, 3]
    dear = layout(np.array([5, 2, 2]), Grouping(multiple=4, price=20, budget=100))
    assert dear.shapes == ((3, 8),)
    assert dear.slots.tolist() == [16, 17, 18, 19, 20, 0, 1, 8, 9]


@given(LENGTHS, GRAINS)
def test_every_token_has_its_own_place_in_its_row(lengths: list[int], grain: Grouping) -> None:
    found = layout(np.array(lengths), grain)
    slots = found.slots.tolist()
    assert len(set(slots)) == len(slots) == sum(lengths)
    assert all(0 <= slot < found.size for slot in slots)
    assert all(longest % grain.multiple == 0 for _, longest in found.shapes)
    assert sorted(found.lengths.tolist()) == sorted(lengths)
    place = 0
    for length in lengths:
        row = slots[place : place + length]
        assert row == list(range(row[0], row[0] + length)) if row else True
        place += length


@given(LENGTHS, GRAINS)
def test_no_other_cuts_are_cheaper(lengths: list[int], grain: Grouping) -> None:
    found = layout(np.array(lengths), grain)
    padded = sorted(-(-length // grain.multiple) * grain.multiple for length in lengths)

    def cost(cuts: tuple[int, ...]) -> int:
        edges = [0, *cuts, len(padded)]
        groups = [padded[a:b] for a, b in pairwise(edges)]
        return sum(len(group) * group[-1] + grain.price for group in groups)

    inner = range(1, len(padded))
    all_cuts = (cuts for n in range(len(padded)) for cuts in combinations(inner, n))
    assert found.size + grain.price * len(found.shapes) == min(map(cost, all_cuts))


@pytest.mark.parametrize(("device", "most"), [("cpu", 0.01), ("cuda", 0.05)])
def test_little_is_padding(device: str, most: float) -> None:
    """Lengths as those of a question's 100 passages, of 170 tokens on the mean."""
    chance = np.random.default_rng(1)
    lengths = chance.normal(170, 25, size=100).astype(np.int64).clip(40, 310)
    found = layout(lengths, Grouping.of(torch.device(device)))
    assert found.size < (1 + most) * lengths.sum()
    assert len(found.shapes) < 30


@given(LENGTHS, st.integers(1, 100))
def test_parts_are_as_long_as_the_budget_allows(lengths: list[int], budget: int) -> None:
    rows = np.array(lengths)
    found = parts(rows, budget)
    assert [i for part in found for i in range(part.start, part.stop)] == list(range(len(rows)))
    for part in found:
        assert rows[part].sum() <= budget or part.stop - part.start == 1
        if part.stop < len(rows):
            assert rows[part].sum() + rows[part.stop] > budget


def test_lengths_must_make_up_the_whole() -> None:
    assert row_lengths(torch.tensor([2, 3]), 5).tolist() == [2, 3]
    with pytest.raises(DataError, match="rows of 5 tokens in all do not make up 6"):
        row_lengths(torch.tensor([2, 3]), 6)
    with pytest.raises(DataError, match="do not make up 5"):
        row_lengths(torch.tensor([6, -1]), 5)
