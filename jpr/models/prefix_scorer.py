"""Steps of the decoder for any prefixes of any questions, over caches shared along the tree.

Keys and values of every prefix's last passage are computed once; a longer prefix attends to those
of its beginnings. What a step computes is in `jpr.models.decoder_cache`.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from jpr.errors import DataError
from jpr.models.decoder_cache import SLOTS, CachePool, power
from jpr.models.joint import EncodedBatch, JointModel

Prefix = tuple[int, ...]


class PrefixScorer:
    """The decoder over the candidates of some questions; belongs to one thread."""

    @torch.inference_mode()
    def __init__(
        self, model: JointModel, encoded: EncodedBatch, rooms: CachePool | None = None
    ) -> None:
        """Begin with no prefix at all."""
        self._counts = encoded.counts
        self._places: dict[tuple[int, Prefix], int] = {}  # where a prefix is in the caches
        self._room = (rooms or CachePool(model)).of(encoded)
        self._room.fill(encoded, self)

    @torch.inference_mode()
    def __call__(self, wanted: Sequence[tuple[int, Prefix]]) -> list[NDArray[np.float32]]:
        """Return log P(candidate | prefix) for each (question, prefix), a number per candidate."""
        assert self._room.owner is self, "another search has taken the room"
        found: dict[tuple[int, Prefix], NDArray[np.float32]] = {}
        for pairs in self._by_depth(wanted):
            found |= self._step(pairs)
        return [found[pair] for pair in wanted]

    def _by_depth(self, wanted: Sequence[tuple[int, Prefix]]) -> list[list[tuple[int, Prefix]]]:
        """Put beginnings that are not cached yet first, each length a round of its own."""
        needed = dict.fromkeys(wanted)
        for question, prefix in wanted:
            self._check(question, prefix)
            for length in range(len(prefix)):
                if (question, prefix[:length]) not in self._places:
                    needed.setdefault((question, prefix[:length]))
        if all((question, prefix[:-1]) in self._places for question, prefix in needed if prefix):
            return [list(needed)]  # every beginning is there: one round for all lengths
        lengths = sorted({len(prefix) for _, prefix in needed})
        return [[pair for pair in needed if len(pair[1]) == length] for length in lengths]

    def _check(self, question: int, prefix: Prefix) -> None:
        n = self._counts[question]
        if len(set(prefix)) < len(prefix) or any(not 0 <= p < n for p in prefix):
            raise DataError(f"prefix {prefix} is no choice of {n} candidates")

    def _step(
        self, pairs: list[tuple[int, Prefix]]
    ) -> dict[tuple[int, Prefix], NDArray[np.float32]]:
        """Ask for prefixes, each in a slot of its question."""
        while len(self._places) + len(pairs) > self._room.places:
            self._room.double_places()
        for pair in pairs:
            self._places.setdefault(pair, len(self._places))
        room, every = self._room, range(self._room.shape[0])
        asked_of = list(every) if room.is_recorded else sorted({question for question, _ in pairs})
        slots = _slots(pairs, asked_of)
        longest = max(len(prefix) for _, prefix in pairs) + 1
        depth = max(16, power(longest)) if room.is_recorded else longest
        asked = self._numbers(slots, len(asked_of), depth)
        rows = room.narrowed(asked_of).step(asked, depth).float().cpu().numpy()
        return {pair: rows[at][: self._counts[pair[0]]] for pair, at in slots.items()}

    def _numbers(
        self, slots: dict[tuple[int, Prefix], tuple[int, int]], questions: int, depth: int
    ) -> NDArray[np.int32]:
        """Write down what `step` is asked; slots that nobody needs ask for no prefix."""
        width = max(slot for _, slot in slots.values()) + 1
        if self._room.is_recorded:
            width = next((count for count in SLOTS if count >= width), width)
        asked = np.full((questions * width, 1 + 2 * depth), -1, dtype=np.int32)
        asked[:, :2] = 0, self._room.places
        for (question, prefix), (at, slot) in slots.items():
            path = [self._places[question, prefix[:length]] for length in range(len(prefix) + 1)]
            row = asked[at * width + slot]
            row[0] = len(prefix)
            row[1 : 1 + len(path)] = path
            row[1 + depth : 1 + depth + len(prefix)] = prefix
        return asked


def _slots(
    pairs: list[tuple[int, Prefix]], questions: list[int]
) -> dict[tuple[int, Prefix], tuple[int, int]]:
    """Number the questions that are asked of, and the prefixes of each."""
    at, taken = {question: i for i, question in enumerate(questions)}, [0] * len(questions)
    slots = {}
    for pair in pairs:
        row = at[pair[0]]
        slots[pair] = row, taken[row]
        taken[row] += 1
    return slots
