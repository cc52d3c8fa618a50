"""The dynamic oracle: which passages to choose next, given those chosen so far (paper, 3.2).

All functions take many questions at once. Candidates are (Q, C), in first-stage order; those that
a question lacks contain no answer. `covers` (Q, C, B) holds the answers of each candidate as bits,
eight to a byte. A *sequence* (Q, k) is what the model is assumed to have chosen, places of
candidates, -1 after its end; the prefix of step t is its first t - 1 passages.

Nothing here draws random numbers: noise is an argument, uniform in [0, 1).
"""

import numpy as np
from numpy.typing import NDArray

Bits = NDArray[np.uint8]
Flags = NDArray[np.bool_]
Ints = NDArray[np.int64]
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


def has_answer(covers: Bits) -> Flags:
    """Return which candidates contain an answer, (…, B) to (…)."""
    found: Flags = np.any(covers, axis=-1)
    return found


def subsample(covers: Bits, present: Flags, n: int, k: int, noise: Real) -> Ints:
    """Return places of n candidates of each question (Q, n), ascending, then -1.

    The paper trains on |B|/4 candidates, k of them with an answer. Here Õ comes first, then random
    passages with an answer until there are k, then random ones without, and only if these do not
    suffice the other passages with an answer. Preproc finds the same Õ in the sample.
    """
    answering = has_answer(covers)
    chosen = positives(covers, k)
    others = np.where(answering & ~chosen, noise, 2.0)  # above all noise: not to be sampled
    room = np.maximum(k - chosen.sum(axis=1, keepdims=True), 0)
    extra = (others.argsort(axis=1).argsort(axis=1) < room) & answering & ~chosen
    groups = [chosen, extra, present & ~answering, present]
    order = np.select(groups, [0.0, 1.0, 2.0, 3.0], 4.0) + noise
    places = order.argsort(axis=1)[:, :n]
    exists = np.take_along_axis(present, places, axis=1)
    found = np.sort(np.where(exists, places, covers.shape[1]), axis=1)
    return np.where(found < covers.shape[1], found, -1)


def with_negatives(chosen: Flags, present: Flags, scores: Real, gamma: float, noise: Real) -> Ints:
    """Return Õ, then all other candidates by descending s(p) + γ·Gumbel (Q, C).

    The first k of these, shuffled, are the sequence that the paper assumes.
    """
    gumbel = -np.log(-np.log(np.clip(noise, 1e-12, 1 - 1e-12)))
    return _by_score(chosen, np.where(present, scores + gamma * gumbel, -np.inf), present)


def ranked(chosen: Flags, scores: Real) -> Ints:
    """Return Õ by descending scores (Q, C)."""
    return _by_score(chosen, scores, chosen)


def _by_score(first: Flags, scores: Real, kept: Flags) -> Ints:
    """Return the kept candidates by descending scores, `first` before the others, then -1."""
    order = np.lexsort((-scores, ~first), axis=1)
    return np.where(np.take_along_axis(kept, order, axis=1), order, -1)


def shuffled(sequences: Ints, noise: Real) -> Ints:
    """Return the passages of each sequence (Q, k) in the order of the noise."""
    order = np.where(sequences >= 0, noise, 2.0).argsort(axis=1)
    return np.take_along_axis(sequences, order, axis=1)


def oracle_targets(chosen: Flags, sequences: Ints) -> Flags:
    """Return the targets of each step (Q, k, C) as the paper prints them: Õ − P_{t-1}."""
    taken = np.zeros((*sequences.shape, chosen.shape[1]), dtype=np.bool_)
    taken[:, 1:] = np.cumsum(next_targets(sequences, chosen.shape[1])[:, :-1], axis=1) > 0
    return chosen[:, None] & ~taken & _has_prefix(sequences)


def uncovered_targets(covers: Bits, sequences: Ints) -> Flags:
    """Return the targets of each step (Q, k, C): all that contain an answer P_{t-1} lacks."""
    rows = np.arange(len(covers))
    left = np.full((*sequences.shape, covers.shape[2]), 255, dtype=np.uint8)
    for step in range(1, sequences.shape[1]):
        left[:, step] = left[:, step - 1] & ~covers[rows, sequences[:, step - 1]]
    return has_answer(covers[:, None] & left[:, :, None]) & _has_prefix(sequences)


def next_targets(sequences: Ints, n: int) -> Flags:
    """Return the targets (Q, k, C) of teacher forcing: of n candidates, the next."""
    found: Flags = sequences[..., None] == np.arange(n)
    return found


def _has_prefix(sequences: Ints) -> Flags:
    """Return which steps have a complete prefix (Q, k, 1)."""
    complete = np.ones((*sequences.shape, 1), dtype=np.bool_)
    complete[:, 1:, 0] = sequences[:, :-1] >= 0
    return complete
