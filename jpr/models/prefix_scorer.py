"""log P(candidate | prefix) for any prefixes of any questions, over caches shared along the tree.

Keys and values of every prefix's last passage are computed once; a longer prefix attends to those
of its ancestors. What a step computes is in `jpr.models.decoder_cache`.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from jpr.errors import DataError
from jpr.models.candidates import EncodedBatch
from jpr.models.decoder_cache import GRAPH_WIDTHS, CachePool, next_power_of_2
from jpr.models.joint import JointModel

Prefix = tuple[int, ...]
Request = tuple[int, Prefix]
"""A question, by its place in the batch, and a prefix of its candidates."""


class PrefixScorer:
    """The decoder over the candidates of some questions; belongs to one thread."""

    @torch.inference_mode()
    def __init__(
        self, model: JointModel, encoded: EncodedBatch, pool: CachePool | None = None
    ) -> None:
        self._counts = encoded.counts
        self._slots: dict[Request, int] = {}
        self._cache = (pool or CachePool(model)).cache_for(encoded)
        self._cache.load(encoded, self)

    @torch.inference_mode()
    def __call__(self, requests: Sequence[Request]) -> list[NDArray[np.float32]]:
        """Return log P(candidate | prefix) for each request, a number per candidate."""
        assert self._cache.owner is self, "another search has taken the cache"
        found: dict[Request, NDArray[np.float32]] = {}
        for pairs in self._rounds(requests):
            found |= self._step(pairs)
        return [found[pair] for pair in requests]

    def _rounds(self, requests: Sequence[Request]) -> list[list[Request]]:
        """Put ancestors that are not cached yet first, each length in a round of its own."""
        needed = dict.fromkeys(requests)
        for question, prefix in requests:
            n = self._counts[question]
            if len(set(prefix)) < len(prefix) or any(not 0 <= p < n for p in prefix):
                raise DataError(f"prefix {prefix} is not a choice of {n} candidates")
            for length in range(len(prefix)):
                if (question, prefix[:length]) not in self._slots:
                    needed.setdefault((question, prefix[:length]))
        if all((question, prefix[:-1]) in self._slots for question, prefix in needed if prefix):
            return [list(needed)]  # every parent is known: one round for all lengths
        lengths = sorted({len(prefix) for _, prefix in needed})
        return [[pair for pair in needed if len(pair[1]) == length] for length in lengths]

    def _step(self, pairs: list[Request]) -> dict[Request, NDArray[np.float32]]:
        """Run one step for prefixes, each in a column of its question's row."""
        cache = self._cache
        while len(self._slots) + len(pairs) > cache.slots:
            cache.grow()
        for pair in pairs:
            self._slots.setdefault(pair, len(self._slots))
        questions = sorted({question for question, _ in pairs})
        longest = depth = max(len(prefix) for _, prefix in pairs) + 1
        if cache.uses_graphs:
            questions, depth = list(range(cache.shape[0])), max(16, next_power_of_2(longest))
        rows = {question: row for row, question in enumerate(questions)}
        used = [0] * len(questions)
        places: dict[Request, tuple[int, int]] = {}
        for pair in pairs:
            row = rows[pair[0]]
            places[pair] = row, used[row]
            used[row] += 1
        width = max(used)
        if cache.uses_graphs:
            width = next((known for known in GRAPH_WIDTHS if known >= width), width)
        requests = self._encode(places, (len(questions), width), depth)
        found = cache.select(questions).step(requests, depth).float().cpu().numpy()
        return {pair: found[at][: self._counts[pair[0]]] for pair, at in places.items()}

    def _encode(
        self, places: dict[Request, tuple[int, int]], shape: tuple[int, int], depth: int
    ) -> NDArray[np.int32]:
        """Write requests as `step` takes them; unused places request the empty prefix."""
        requests = np.full((*shape, 1 + 2 * depth), -1, dtype=np.int32)
        requests[..., :2] = 0, self._cache.slots
        for (question, prefix), place in places.items():
            path = [self._slots[question, prefix[:length]] for length in range(len(prefix) + 1)]
            row = requests[place]
            row[0] = len(prefix)
            row[1 : 1 + len(path)] = path
            row[1 + depth : 1 + depth + len(prefix)] = prefix
        return requests.reshape(-1, 1 + 2 * depth)
