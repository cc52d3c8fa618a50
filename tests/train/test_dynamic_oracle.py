import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from jpr.train.dynamic_oracle import (
    Bits,
    Flags,
    has_answer,
    next_targets,
    oracle_targets,
    positives,
    ranked,
    shuffled,
    subsample,
    uncovered_targets,
    with_negatives,
)


def bits(table: list[list[set[int]]]) -> Bits:
    """Which answers each candidate of each question contains, as bits."""
    most = max((a for row in table for held in row for a in held), default=0) + 1
    flags = [[[a in held for a in range(most)] for held in row] for row in table]
    return np.packbits(np.array(flags, dtype=np.bool_), axis=-1)


def sets(flags: Flags) -> list[set[int]]:
    return [set(np.flatnonzero(row).tolist()) for row in flags]


tables = st.integers(1, 7).flatmap(
    lambda n: st.lists(
        st.lists(st.sets(st.integers(0, 11), max_size=3), min_size=n, max_size=n),
        min_size=1,
        max_size=4,
    )
)
"""Questions with the same number of candidates, each a set of answers."""
seeds = st.integers(0, 1000)


def noise_for(covers: Bits, seed: int) -> "np.typing.NDArray[np.float64]":
    return np.random.default_rng(seed).random(covers.shape[:2])


def preproc(k: int, row: list[set[int]]) -> set[int]:
    """The paper's algorithm, line by line."""
    chosen: set[int] = set()
    left = set().union(*row)
    for b, answers in enumerate(row):
        if answers & left:
            chosen.add(b)
            left -= answers
        if len(chosen) == k:
            break
    return chosen


@given(tables, st.integers(1, 5))
def test_positives_are_those_of_preproc(table: list[list[set[int]]], k: int) -> None:
    assert sets(positives(bits(table), k)) == [preproc(k, row) for row in table]


def test_positives_by_hand() -> None:
    table = [[{0}, set(), {0}, {0, 1}, {2}]]
    assert sets(positives(bits(table), 5)) == [{0, 3, 4}]
    assert sets(positives(bits(table), 2)) == [{0, 3}]


@given(tables, st.integers(1, 4), st.integers(4, 7), seeds)
def test_a_sample_keeps_the_positives(
    table: list[list[set[int]]], k: int, n: int, seed: int
) -> None:
    covers = bits(table)
    inside = np.ones(covers.shape[:2], dtype=np.bool_)
    places = subsample(covers, inside, n, k, noise_for(covers, seed))
    for row, held, chosen in zip(places, table, positives(covers, k), strict=True):
        kept = row[row >= 0].tolist()
        assert kept == sorted(set(kept))
        assert len(kept) == min(n, len(held))
        drawn = [held[place] for place in kept]
        assert {kept[place] for place in preproc(k, drawn)} == set(np.flatnonzero(chosen).tolist())


@given(tables, st.integers(1, 3), seeds)
def test_a_sample_has_k_positives_where_negatives_fill_it(
    table: list[list[set[int]]], k: int, seed: int
) -> None:
    covers = bits(table)
    inside = np.ones(covers.shape[:2], dtype=np.bool_)
    n = 4
    for row, held in zip(
        subsample(covers, inside, n, k, noise_for(covers, seed)), table, strict=True
    ):
        there = sum(bool(answers) for answers in held)
        with_answer = sum(bool(held[place]) for place in row if place >= 0)
        free = n - (len(held) - there)  # places that negatives cannot fill
        assert with_answer == min(there, max(k, free))


def test_candidates_that_are_not_there_are_never_drawn() -> None:
    covers = bits([[{0}, set(), set(), set()]])
    inside = np.array([[True, True, False, False]])
    places = subsample(covers, inside, 3, 2, np.zeros((1, 4)))
    assert places.tolist() == [[0, 1, -1]]


@given(tables, st.integers(1, 5), seeds)
def test_a_sequence_is_the_positives_and_negatives_up_to_k(
    table: list[list[set[int]]], k: int, seed: int
) -> None:
    covers = bits(table)
    n = covers.shape[1]
    inside = np.ones(covers.shape[:2], dtype=np.bool_)
    chosen, noise = positives(covers, k), noise_for(covers, seed)
    sequences = with_negatives(chosen, inside, -noise, 1.0, noise)[:, :k]
    mixed = shuffled(sequences, noise[:, : sequences.shape[1]])
    for before, row, expected in zip(sequences, mixed, sets(chosen), strict=True):
        assert set(row.tolist()) == set(before.tolist())
        assert len(set(row.tolist())) == min(k, n)
        assert expected <= set(row.tolist())


def test_without_chance_negatives_are_those_with_the_best_scores() -> None:
    chosen = np.array([[False, True, False, False]])
    scores = np.array([[0.1, -5.0, 0.3, 0.2]])
    inside = np.ones_like(chosen)
    found = with_negatives(chosen, inside, scores, 0.0, np.full((1, 4), 0.5))
    assert found.tolist() == [[1, 2, 3, 0]]


def test_chance_draws_negatives_by_their_probability() -> None:
    chosen = np.zeros((20_000, 2), dtype=np.bool_)
    scores = np.tile(np.log([0.8, 0.2]), (len(chosen), 1))
    noise = np.random.default_rng(0).random(chosen.shape)
    first = with_negatives(chosen, ~chosen, scores, 1.0, noise)[:, 0]
    assert abs((first == 0).mean() - 0.8) < 0.01  # the Gumbel trick samples the softmax


@given(tables, st.integers(1, 5), seeds)
def test_oracle_targets_are_the_positives_not_in_the_prefix(
    table: list[list[set[int]]], k: int, seed: int
) -> None:
    covers = bits(table)
    chosen, noise = positives(covers, k), noise_for(covers, seed)
    sequences = with_negatives(chosen, np.ones_like(chosen), noise, 1.0, noise)[:, :k]
    for row, expected, steps in zip(
        sequences.tolist(), sets(chosen), oracle_targets(chosen, sequences), strict=True
    ):
        assert sets(steps) == [expected - set(row[:t]) for t in range(len(row))]


@given(tables, st.integers(1, 5), seeds)
def test_uncovered_targets_add_an_answer(table: list[list[set[int]]], k: int, seed: int) -> None:
    covers = bits(table)
    noise = noise_for(covers, seed)
    none = np.zeros(covers.shape[:2], dtype=np.bool_)
    sequences = with_negatives(none, ~none, noise, 1.0, noise)[:, :k]
    for row, held, steps in zip(
        sequences.tolist(), table, uncovered_targets(covers, sequences), strict=True
    ):
        for t, found in enumerate(sets(steps)):
            done = set().union(*(held[place] for place in row[:t]))
            assert found == {place for place, answers in enumerate(held) if answers - done}


@given(tables, st.integers(1, 5))
def test_where_the_prefix_is_all_positives_nothing_more_can_be_covered(
    table: list[list[set[int]]], k: int
) -> None:
    covers = bits(table)
    chosen = positives(covers, k)
    sequences = ranked(chosen, np.zeros(chosen.shape))
    uncovered = uncovered_targets(covers, sequences)
    for row, steps in zip(sequences, uncovered, strict=True):
        length = int((row >= 0).sum())
        if length < min(k, len(row)):
            assert not steps[length:].any()


def test_teacher_forcing_follows_the_scores() -> None:
    chosen = np.array([[True, False, True, True]])
    sequences = ranked(chosen, np.array([[0.1, 9.0, 0.3, 0.2]]))[:, :3]
    assert sequences.tolist() == [[2, 3, 0]]
    assert sets(next_targets(sequences, 4)[0]) == [{2}, {3}, {0}]


def test_a_sequence_that_has_ended_has_no_targets() -> None:
    covers = bits([[{0}, {1}, {2}]])
    sequences = np.array([[0, -1, -1]])
    assert sets(uncovered_targets(covers, sequences)[0]) == [{0, 1, 2}, {1, 2}, set()]
    assert not next_targets(sequences, 3)[0, 1:].any()


@settings(max_examples=5)
@given(st.integers(1, 40))
def test_any_number_of_answers_is_reported_apart(n: int) -> None:
    table = [[{i} for i in range(n)]]
    assert has_answer(bits(table)).all()
    assert positives(bits(table), n).all()
