"""The trie of runs against all runs, listed one by one."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from jpr.decode.substrings import Substrings

PASSAGES = st.lists(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=7), max_size=4)


def built(passages: list[list[tuple[int, bool]]], longest: int) -> Substrings:
    flat = [token for passage in passages for token in passage]
    ids = np.array([token for token, _ in flat], dtype=np.int64)
    inner = np.array([goes_on for _, goes_on in flat], dtype=np.bool_)
    return Substrings.of(ids, np.array([len(p) for p in passages], dtype=np.int64), inner, longest)


def whole_runs(passages: list[list[tuple[int, bool]]], longest: int) -> set[tuple[int, ...]]:
    """All runs of whole words, by looking at every one."""
    found = set()
    for passage in passages:
        begins = [at == 0 or not passage[at][1] for at in range(len(passage))] + [True]
        for first in range(len(passage)):
            for last in range(first + 1, min(first + longest, len(passage)) + 1):
                if begins[first] and begins[last]:
                    found.add(tuple(token for token, _ in passage[first:last]))
    return found


@given(PASSAGES, st.integers(1, 4))
def test_whole_runs_are_those_of_the_passages(
    passages: list[list[tuple[int, bool]]], longest: int
) -> None:
    trie = built(passages, longest)
    runs = [trie.run(node) for node in range(len(trie))]
    whole = [run for run, is_whole in zip(runs, trie.is_whole, strict=True) if is_whole]
    assert sorted(whole) == sorted(whole_runs(passages, longest))
    assert len(set(runs)) == len(runs)


@given(PASSAGES, st.integers(1, 4))
def test_every_node_leads_to_a_whole_run(
    passages: list[list[tuple[int, bool]]], longest: int
) -> None:
    trie = built(passages, longest)
    for node in range(1, len(trie)):
        assert trie.is_whole[node] or trie.counts[node]


@given(PASSAGES, st.integers(1, 4))
def test_children_are_a_token_longer(passages: list[list[tuple[int, bool]]], longest: int) -> None:
    trie = built(passages, longest)
    for node in range(len(trie)):
        below = range(trie.first[node], trie.first[node] + trie.counts[node])
        assert [trie.parents[child] for child in below] == [node] * len(below)
        assert [trie.child(node, int(trie.tokens[child])) for child in below] == list(below)
        assert list(trie.tokens[below]) == sorted(set(trie.tokens[below].tolist()))
        assert trie.child(node, 9) == -1
    assert int(trie.counts.sum()) == len(trie) - 1


def test_no_passages_have_no_runs() -> None:
    assert len(built([], 3)) == len(built([[], []], 3)) == 1
