"""log P(candidate | prefix) for any prefixes of any questions, over caches shared along the tree.

Keys and values of every prefix's last passage are computed once; a longer prefix attends to those
of its ancestors. Attention to the memory is reassociated: instead of computing keys and values
of the whole memory for every layer, the query is multiplied with the key matrix and the result with
the value matrix.

Buffers have fixed shapes. So on a GPU a step is captured once per shape as a CUDA graph and
replayed; a `CachePool` keeps the buffers for the next questions.
"""

import threading
from collections import defaultdict
from collections.abc import Iterable, Sequence
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
from jpr.models.kernels.cuda_graph import CudaGraphCache
from jpr.models.padding import Ints, in_parts, row_lengths
from jpr.models.t5_blocks import CrossAttention
from jpr.types import Prefix

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
        self.uses_graphs = dispatch.uses_inference_kernels(like)
        self._graphs = CudaGraphCache()
        self.slots = 32 * questions  # of prefixes; one more is for unused rows of a step
        size = len(model.decoder.layers), self.slots + 1, 2, config.num_heads, config.d_kv
        self.cache = like.new_zeros(size)

    def grow(self) -> None:
        """Double the slots for prefixes."""
        self.cache = torch.cat([self.cache[:, :-1], self.cache], dim=1)
        self.slots *= 2
        self._graphs = CudaGraphCache()

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

    def step(self, requests: NDArray[np.int32], questions: list[int]) -> Tensor:
        """Return log-probabilities (Q, W, C) of prefixes, and store their keys and values.

        `requests` (Q, W, 1 + 2 · depth) has each prefix's length, the slots of its ancestors and,
        after them, its own, then its passages; -1 beyond them.
        """
        rows = slice(None) if len(questions) == self.shape[0] else questions
        _, width, size = requests.shape
        given, device = torch.from_numpy(requests).flatten(0, 1), self.memory.device
        run = partial(self._run_decoder, rows=rows)
        if self.uses_graphs and width in GRAPH_WIDTHS:
            return self._graphs.run((width, size), run, given, device=device)
        return run(given.to(device))

    def _run_decoder(self, requests: Tensor, rows: slice | list[int]) -> Tensor:
        """Run the decoder on the last passage of each prefix (P, 1 + 2 · depth)."""
        model, depth = self.model, requests.shape[1] // 2
        memory, lengths, mask = self.memory[rows], self.lengths[rows], self.mask[rows]
        questions, candidates = mask.shape
        width = len(requests) // questions
        path, passages = requests[:, : 1 + depth], requests[:, 1 + depth :].long()
        question = torch.arange(len(requests), device=requests.device) // width
        length = requests[:, :1].long()
        last = passages.gather(1, (length - 1).clamp(min=0)).clamp(min=0)[:, 0]
        first = model.head.start.to(self.inputs.dtype)
        x = torch.where(length > 0, self.inputs[rows][question, last], first)  # (P, d)
        bias = model.decoder.relative(-torch.arange(depth, device=requests.device)).float()
        for own, block in zip(self.cache, model.decoder.layers, strict=True):
            attend_self = partial(dispatch.prefix_attention, cache=own, path=path, bias=bias)
            attend_cross = partial(_attend_memory, block.cross, memory, lengths)
            x = block(x, attend_self, attend_cross)
        hidden = model.decoder.norm(x).view(questions, width, -1)
        taken = torch.zeros(len(requests), candidates + 1, dtype=torch.bool, device=x.device)
        taken = taken.scatter(1, passages.where(passages >= 0, candidates), True)[:, :-1]
        excluded = taken.view(questions, width, -1) | ~mask[:, None]
        logits = model.head.logits(hidden, self.keys[rows], self.prior[rows])
        return masked_log_softmax(logits, excluded)


def _attend_memory(cross: CrossAttention, memory: Tensor, lengths: Tensor, q: Tensor) -> Tensor:
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


class CachePool(threading.local):
    """Of each thread: a model's caches, one of each shape, and CUDA graphs of its encoder."""

    def __init__(self, model: JointModel) -> None:
        self._model, self._graphs = model, CudaGraphCache()
        self._caches: dict[tuple[int, int, int], DecoderCache] = {}

    @torch.inference_mode()
    def encode(self, candidates: PackedCandidates) -> EncodedBatch:
        """Encode every candidate, as the model does, but by CUDA graphs where possible."""
        fast = dispatch.uses_inference_kernels(self._model.decoder.norm.weight)
        if not fast or not len(candidates.ids):
            return self._model.encode(candidates)
        rows = row_lengths(candidates.lengths, len(candidates.ids))
        return self._model.encode(candidates, in_parts(candidates.ids, rows, self._encode_part))

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
        if shape not in self._caches:
            self._caches[shape] = DecoderCache(self._model, shape)
        return self._caches[shape]


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
        for question, prefix in requests:
            n = self._counts[question]
            if len(set(prefix)) < len(prefix) or any(not 0 <= p < n for p in prefix):
                raise DataError(f"prefix {prefix} is not a choice of {n} candidates")
        found = self._run(dict.fromkeys(requests))
        return [found[pair] for pair in requests]

    def _run(self, requests: Iterable[Request]) -> dict[Request, NDArray[np.float32]]:
        """Run the decoder, on parents first whose keys and values are not cached."""
        parents = dict.fromkeys((question, prefix[:-1]) for question, prefix in requests if prefix)
        new = [parent for parent in parents if parent not in self._slots]
        found = self._run(new) if new else {}
        rest = [pair for pair in requests if pair not in found]
        return found | self._step(rest) if rest else found

    def _step(self, pairs: list[Request]) -> dict[Request, NDArray[np.float32]]:
        """Run one step for prefixes, each in a column of its question's row."""
        cache, slots = self._cache, self._slots
        prefixes: dict[int, list[Prefix]] = defaultdict(list)
        for question, prefix in pairs:
            slots.setdefault((question, prefix), len(slots))
            prefixes[question].append(prefix)
        while len(slots) > cache.slots:
            cache.grow()
        questions, depth = sorted(prefixes), max(len(prefix) for _, prefix in pairs) + 1
        width = max(map(len, prefixes.values()))
        if cache.uses_graphs:  # a few fixed shapes, each for all questions
            questions, depth = list(range(cache.shape[0])), max(16, next_power_of_2(depth))
            width = next((known for known in GRAPH_WIDTHS if known >= width), width)
        requests = np.full((len(questions), width, 1 + 2 * depth), -1, dtype=np.int32)
        requests[..., :2] = 0, cache.slots  # unused places: the empty prefix, stored nowhere
        places: dict[Request, tuple[int, int]] = {}
        for row, question in enumerate(questions):
            for column, prefix in enumerate(prefixes[question]):
                places[question, prefix] = row, column
                path = [slots[question, prefix[:length]] for length in range(len(prefix) + 1)]
                request = requests[row, column]
                request[: 1 + len(path)] = len(prefix), *path
                request[1 + depth : 1 + depth + len(prefix)] = prefix
        found = cache.step(requests, questions).float().cpu().numpy()
        return {pair: found[at][: self._counts[pair[0]]] for pair, at in places.items()}


def next_power_of_2(count: int) -> int:
    """Return the smallest power of two that is at least `count`."""
    return 1 << (count - 1).bit_length()
