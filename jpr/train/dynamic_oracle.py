"""The dynamic oracle: which passages to choose next, given those chosen so far (paper, 3.2).

Everything is for many questions at once. Candidates are (Q, C), in the first stage's order; those
that a question lacks contain no answer. `covers` (Q, C, B) says which answers a candidate contains,
as bits, eight to a byte. A *sequence* (Q, k) is what the model is taken to have chosen, numbers of
candidates, -1 after its end; the prefix of step t is its first t - 1 passages.

Nothing here draws a random number: noise comes as an argument, uniform in [0, 1).
"""

import numpy as np
from numpy.typing import NDArray

Bits = NDArray[np.uint8]
Flags = NDArray[np.bool_]
Whole = NDArray[np.int64]
Real = NDArray[np.float64]


def positives(covers: Bits, k: int) -> Flags:
    """Return Õ (Q, C): up to k passages that cover all that can be covered (Preproc).

    The paper's algorithm: go through the candidates in order, and take each that contains an answer
    which those taken before lack.
    """
    left = np.full_like(covers[:, 0], 255)
    count = np.zeros(len(covers), dtype=np.int64)
    chosen = np.zeros(covers.shape[:2], dtype=np.bool_)
    for place in range(covers.shape[1]):
        new = (covers[:, place] & left).any(axis=-1) & (count < k)
        chosen[:, place] = new
        count += new
        left &= np.where(new[:, None], ~covers[:, place], 255)
    return chosen


def useful(covers: Bits) -> Flags:
    """Tell what contains an answer, (…, B) to (…)."""
    found: Flags = np.any(covers, axis=-1)
    return found


def subsample(covers: Bits, inside: Flags, n: int, k: int, noise: Real) -> Whole:
    """Return n candidates of each question (Q, n), in order, -1 where there are fewer.

    The paper trains on |B|/4 candidates, k of them with an answer. Here Õ comes first, then random
    passages with an answer until there are k, then random ones without, and only where these do not
    suffice the other passages with an answer. Preproc finds the same Õ in what is drawn.
    """
    answering = useful(covers)
    chosen = positives(covers, k)
    others = np.where(answering & ~chosen, noise, 2.0)  # beyond all noise where not to be drawn
    room = np.maximum(k - chosen.sum(axis=1, keepdims=True), 0)
    drawn = (others.argsort(axis=1).argsort(axis=1) < room) & answering & ~chosen
    order = (
        np.select([chosen, drawn, inside & ~answering, inside], [0.0, 1.0, 2.0, 3.0], 4.0) + noise
    )
    places = order.argsort(axis=1)[:, :n]
    there = np.take_along_axis(inside, places, axis=1)
    found = np.sort(np.where(there, places, covers.shape[1]), axis=1)
    return np.where(found < covers.shape[1], found, -1)


def with_negatives(chosen: Flags, inside: Flags, scores: Real, gamma: float, noise: Real) -> Whole:
    """Return Õ, then all other candidates, those with the largest s(p) + γ·Gumbel first (Q, C).

    The first k of these, `shuffled`, are what the paper takes the model to have chosen.
    """
    gumbel = -np.log(-np.log(np.clip(noise, 1e-12, 1 - 1e-12)))
    worth = np.where(inside, scores + gamma * gumbel, -np.inf)
    order = np.lexsort((-worth, ~chosen), axis=1)
    return np.where(np.take_along_axis(inside, order, axis=1), order, -1)


def ranked(chosen: Flags, scores: Real) -> Whole:
    """Return Õ, the passages with the best scores first (Q, C)."""
    order = np.lexsort((-scores, ~chosen), axis=1)
    return np.where(np.take_along_axis(chosen, order, axis=1), order, -1)


def shuffled(sequences: Whole, noise: Real) -> Whole:
    """Return the same passages of each sequence in the order of the noise (Q, k)."""
    order = np.where(sequences >= 0, noise, 2.0).argsort(axis=1)
    return np.take_along_axis(sequences, order, axis=1)


def oracle_targets(chosen: Flags, sequences: Whole) -> Flags:
    """Return the targets of each step (Q, k, C) as the paper prints them: Õ − P_{t-1}."""
    return chosen[:, None] & ~_taken(sequences, chosen.shape[1]) & _real(sequences)


def uncovered_targets(covers: Bits, sequences: Whole) -> Flags:
    """Return the targets of each step (Q, k, C): all that contain an answer P_{t-1} lacks."""
    rows = np.arange(len(covers))
    left = np.full((*sequences.shape, covers.shape[2]), 255, dtype=np.uint8)
    for step in range(1, sequences.shape[1]):
        left[:, step] = left[:, step - 1] & ~covers[rows, sequences[:, step - 1]]
    return useful(covers[:, None] & left[:, :, None]) & _real(sequences)


def next_targets(sequences: Whole, n: int) -> Flags:
    """Return the targets of each step (Q, k, C) of n candidates in teacher forcing: the next."""
    found: Flags = sequences[..., None] == np.arange(n)
    return found


def _taken(sequences: Whole, n: int) -> Flags:
    """Return which of n candidates are in the prefix of each step (Q, k, C)."""
    taken = np.zeros((*sequences.shape, n), dtype=np.bool_)
    taken[:, 1:] = np.cumsum(next_targets(sequences, n)[:, :-1], axis=1) > 0
    return taken


def _real(sequences: Whole) -> Flags:
    """Return which steps have a whole prefix (Q, k, 1)."""
    real = np.ones((*sequences.shape, 1), dtype=np.bool_)
    real[:, 1:, 0] = sequences[:, :-1] >= 0
    return real
