from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from jpr.encode.encoder import batches

LENGTHS = st.lists(st.integers(1, 300), max_size=60)
BUDGET = st.integers(1, 2000)


def padded_tokens(lengths: list[int], parts: list[list[int]]) -> int:
    """Count the tokens of batches, padding included."""
    return sum(len(part) * max(lengths[i] for i in part) for part in parts)


@given(LENGTHS, BUDGET)
def test_each_text_is_in_exactly_one_batch(lengths: list[int], budget: int) -> None:
    places = [place for batch in batches(lengths, budget) for place in batch]
    assert sorted(places) == list(range(len(lengths)))


@given(LENGTHS, BUDGET)
def test_no_batch_exceeds_the_budget_but_a_single_text(lengths: list[int], budget: int) -> None:
    for batch in batches(lengths, budget):
        assert len(batch) == 1 or padded_tokens(lengths, [batch]) <= budget


@given(LENGTHS, BUDGET)
def test_two_neighbours_would_not_fit_into_one(lengths: list[int], budget: int) -> None:
    made = list(batches(lengths, budget))
    for first, second in pairwise(made):
        assert padded_tokens(lengths, [[*first, second[0]]]) > budget


@given(LENGTHS, BUDGET)
def test_texts_come_longest_first(lengths: list[int], budget: int) -> None:
    in_order = [lengths[place] for batch in batches(lengths, budget) for place in batch]
    assert in_order == sorted(lengths, reverse=True)


def test_texts_of_one_length_are_not_padded() -> None:
    assert padded_tokens([7] * 10, list(batches([7] * 10, 21))) == 70
