import torch
from hypothesis import given
from hypothesis import strategies as st

from recipes.dual_encoder import TokenRows

texts = st.lists(st.lists(st.integers(3, 999), max_size=9), min_size=1, max_size=6)


@given(texts, st.integers(3, 12), st.data())
def test_a_batch_is_each_row_between_head_and_tail_cut_at_the_longest(
    rows: list[list[int]], longest: int, data: st.DataObject
) -> None:
    packed = TokenRows.of(rows, head=(1, 7), tail=2)
    reference = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=5))
    ids, lengths = packed.packed(torch.tensor(reference), longest)
    expected = [[*[1, 7, *rows[i]][: longest - 1], 2] for i in reference]
    assert ids.tolist() == [token for row in expected for token in row]
    assert lengths.tolist() == [len(row) for row in expected]


def test_ids_of_sixteen_bits_come_back_whole() -> None:
    packed = TokenRows.of([[40_000, 65_535]], head=(0,), tail=32_768)
    ids, lengths = packed.packed(torch.tensor([0, 0]), 9)
    assert ids.tolist() == [0, 40_000, 65_535, 32_768] * 2
    assert lengths.tolist() == [4, 4]
