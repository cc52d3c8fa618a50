"""log P(candidate | prefix) for any prefixes of any questions, over caches shared along the tree.

Keys and values of every prefix's last passage are computed once; a longer prefix attends to those
of its ancestors. Attention to the memory is reassociated: instead of computing keys and values
of the whole memory for every layer, the query is multiplied with the key matrix and the result with
the value matrix.

Buffers have fixed shapes. So on a GPU a step is captured once per shape as a CUDA graph and
replayed; a `CachePool` keeps the buffers for the next questions.
"""

import threading
from collections import Counter
from collections.abc import Sequence
from copy import copy
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from jpr.errors import DataError
from jpr.models.candidates import EncodedBatch, PackedCandidates
from jpr.models.joint import JointModel, masked_log_softmax
from jpr.models.kernels import dispatch
from jpr.models.kernels.cuda_graph import CudaGraph, CudaGraphCache
from jpr.models.padding import Grouping, Ints, in_parts, row_lengths
from jpr.models.t5_blocks import CrossAttention

Prefix = tuple[int, ...]
Request = tuple[int, Prefix]
"""A question, by its place in the batch, and a prefix of its candidates."""
GRAPH_WIDTHS = (1, 4, 12)
"""Prefixes per question for which steps are captured; wider steps run without a graph."""


class DecoderCache:
    """Buffers for some questions: their candidates, and keys and values of known prefixes."""

    def __init__(self, model: JointModel, shape: tuple[int, int, int]) -> None:
        """Allocate for a number of questions, of memory vectors and of candidates of each."""
        self.model, self.shape = model, shape
        questions, longest, candidates = shape
        config, like = model.decoder.config, model.decoder.norm.weight
        self.memory = like.new_zeros(questions, longest, config.d_model)
        self.lengths = torch.ones(questions, dtype=torch.int32, device=like.device)
        self.inputs = like.new_zeros(questions, candidates, config.d_model)
        self.keys = like.new_zeros(questions, candidates, config.d_model)
        self.prior = torch.zeros(questions, candidates, device=like.device)
        self.mask = torch.zeros(questions, candidates, dtype=torch.bool, device=like.device)
        self.owner: object = None
        self._graphs: dict[tuple[int, int], CudaGraph] = {}
        self.slots = 32 * questions  # of prefixes; one more is for unused rows of a step
        size = len(model.decoder.layers), self.slots + 1, 2, config.num_heads, config.d_kv
        self.cache = like.new_zeros(size)

    def grow(self) -> None:
        """Double the slots for prefixes."""
        self.cache = torch.cat([self.cache[:, :-1], self.cache], dim=1)
        self.slots *= 2
        self._graphs.clear()

    def load(self, encoded: EncodedBatch, owner: object) -> None:
        """Put questions into the buffers, in place of others."""
        self.owner = owner
        count, candidates = encoded.mask.shape
        lengths = encoded.memory_lengths.tolist()
        for at, part in enumerate(torch.split(encoded.memory, lengths)):
            self.memory[at, : len(part)] = part
        self.lengths[:count] = encoded.memory_lengths
        head = self.model.head
        self.inputs[:count, :candidates] = head.inputs(encoded)
        self.keys[:count, :candidates] = head.keys(encoded)
        self.prior[:count, :candidates] = encoded.prior
        self.mask.zero_()
        self.mask[:count, :candidates] = encoded.mask
        self.mask[count:, 0] = True  # a softmax over nothing is NaN

    @property
    def uses_graphs(self) -> bool:
        """Whether steps have a few fixed shapes, each for all questions."""
        return dispatch.uses_inference_kernels(self.memory)

    def select(self, questions: list[int]) -> "DecoderCache":
        """Return a cache of some questions, with the same slots."""
        if len(questions) == self.shape[0]:
            return self
        part = copy(self)
        part.shape = len(questions), *self.shape[1:]
        for name in ("memory", "lengths", "inputs", "keys", "prior", "mask"):
            setattr(part, name, getattr(self, name)[questions])
        return part

    def step(self, requests: NDArray[np.int32], depth: int) -> Tensor:
        """Return log-probabilities (Q, W, C) for requests (Q · W, 1 + 2 · depth); see `step`."""
        width = len(requests) // self.shape[0]
        given = torch.from_numpy(requests)
        if not self.uses_graphs or width not in GRAPH_WIDTHS:
            return step(self, given.to(self.memory.device), depth)
        if (width, depth) not in self._graphs:
            blank = torch.full(requests.shape, -1, dtype=torch.int32)
            blank[:, :2] = torch.tensor([0, self.slots])  # the empty prefix, stored nowhere
            work = partial(step, self, depth=depth)
            self._graphs[width, depth] = CudaGraph(work, [blank], self.memory.device)
        return self._graphs[width, depth](given)


def step(cache: DecoderCache, requests: Tensor, depth: int) -> Tensor:
    """Run the decoder on the last passage of each prefix, and store its keys and values.

    `requests` (P, 1 + 2 · depth) has each prefix's length, the slots of its ancestors and, after
    them, its own, then its passages; -1 beyond them.
    """
    questions, _, candidates = cache.shape
    model, width = cache.model, len(requests) // questions
    path, passages = requests[:, : 1 + depth], requests[:, 1 + depth :].long()
    question = torch.arange(len(requests), device=requests.device) // width
    length = requests[:, :1].long()
    last = passages.gather(1, (length - 1).clamp(min=0)).clamp(min=0)[:, 0]
    first = model.head.start_input().to(cache.inputs.dtype)
    x = torch.where(length > 0, cache.inputs[question, last], first)  # (P, d)
    bias = model.decoder.relative(-torch.arange(depth, device=requests.device)).float()
    for layer, block in enumerate(model.decoder.layers):
        own = cache.cache[layer]  # (slots, 2, heads, d_kv)
        attend_self = partial(dispatch.prefix_attention, cache=own, path=path, bias=bias)
        attend_cross = partial(
            _attend_memory, cross=block.cross, memory=cache.memory, lengths=cache.lengths
        )
        x = block(x, attend_self, attend_cross)
    hidden = model.decoder.norm(x).view(questions, width, -1)
    taken = torch.zeros(len(requests), candidates + 1, dtype=torch.bool, device=requests.device)
    taken = taken.scatter(1, passages.where(passages >= 0, candidates), True)[:, :-1]
    excluded = taken.view(questions, width, -1) | ~cache.mask[:, None]
    return masked_log_softmax(model.head.logits(hidden, cache.keys, cache.prior), excluded)


def _attend_memory(q: Tensor, cross: CrossAttention, memory: Tensor, lengths: Tensor) -> Tensor:
    """Attend to each prefix's own memory, queries (P, heads, d_kv) to the same."""
    heads, d_kv = q.shape[1:]
    questions, _, d = memory.shape
    key, value = (w.weight.view(heads, d_kv, d).to(q.dtype) for w in (cross.k, cross.v))
    query = (q.transpose(0, 1) @ key).view(heads, questions, -1, d)  # (heads, Q, W, d)
    query = query.transpose(0, 1).reshape(questions, -1, d)
    memory = memory.to(q.dtype)
    shares = dispatch.masked_softmax(query @ memory.transpose(1, 2), lengths)  # (Q, heads · W, M)
    mixed = (shares @ memory).view(questions, heads, -1, d).transpose(0, 1)
    mixed = mixed.reshape(heads, -1, d) @ value.transpose(1, 2)  # (heads, P, d_kv)
    return mixed.transpose(0, 1)


class CachePool:
    """The caches of a model, one of each shape for each thread, and CUDA graphs of its encoder."""

    def __init__(self, model: JointModel) -> None:
        self._model, self._thread = model, threading.local()
        self._graphs = CudaGraphCache()

    @torch.inference_mode()
    def encode(self, candidates: PackedCandidates) -> EncodedBatch:
        """Encode every candidate, as the model does, but by CUDA graphs where possible."""
        if not dispatch.uses_inference_kernels(self._model.decoder.norm.weight):
            return self._model.encode(candidates)
        return self._model.encode(candidates, self._encode_packed)

    def _encode_packed(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """Map concatenated rows of `lengths` (B,), ids (N,), to (N, d)."""
        rows = row_lengths(lengths, len(ids))
        return in_parts(ids, rows, Grouping.of(ids.device).budget, self._encode_part)

    def _encode_part(self, ids: Tensor, rows: Ints) -> Tensor:
        """Pad to a shape that recurs; what lies after the last row's end belongs to none."""
        multiple = 1024 if len(ids) > 8192 else 128
        longest = max(64, next_power_of_2(int(rows.max())))
        padded = F.pad(ids, (0, -len(ids) % multiple))
        ends = np.append(0, rows.cumsum()).astype(np.int32)
        ends = np.pad(ends, (0, -len(rows) % 32), mode="edge")
        key = len(padded), len(ends), longest
        work = partial(self._model.encoder.forward_varlen, longest=longest)
        found = self._graphs.run(key, work, padded, torch.from_numpy(ends), device=ids.device)
        return found[: len(ids)].clone()

    def cache_for(self, encoded: EncodedBatch) -> DecoderCache:
        """Return a cache with room for these questions; on a GPU, one that is reused."""
        questions, candidates = encoded.mask.shape
        longest = int(encoded.memory_lengths.max())
        if not dispatch.uses_inference_kernels(self._model.decoder.norm.weight):
            return DecoderCache(self._model, (questions, longest, candidates))
        multiple = 2048 if longest > 2048 else 64
        padded = -(-longest // multiple) * multiple
        shape = next_power_of_2(questions), padded, -(-candidates // 32) * 32
        known: dict[tuple[int, int, int], DecoderCache]
        known = self._thread.__dict__.setdefault("caches", {})
        if shape not in known:
            known[shape] = DecoderCache(self._model, shape)
        return known[shape]


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
        used: Counter[int] = Counter()
        places: dict[Request, tuple[int, int]] = {}
        for question, prefix in pairs:
            places[question, prefix] = rows[question], used[question]
            used[question] += 1
        width = max(used.values())
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


def next_power_of_2(count: int) -> int:
    """Return the smallest power of two that is at least `count`."""
    return 1 << (count - 1).bit_length()
