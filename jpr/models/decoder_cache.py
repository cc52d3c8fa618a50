"""One step of the decoder as a function of tensors, and the rooms in which these lie.

Attention to the memory is turned round: instead of keys and values of the whole
memory, for every layer, the query is taken to the memory and the mixture brought back, which is the
same by associativity and costs no keys and values.

A step is one function of tensors of fixed shapes. On a GPU it is captured once per shape as a CUDA
graph and replayed; a `CachePool` keeps the buffers for the next questions.
"""

import threading
from copy import copy
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from jpr.models.joint import EncodedBatch, JointModel, PackedCandidates, masked_log_softmax
from jpr.models.kernels.cuda_graph import CudaGraph, CudaGraphCache
from jpr.models.padding import Grouping, Whole, counts, in_parts, length_mask
from jpr.models.t5_blocks import CrossAttention, uses_inference_kernels

SLOTS = (1, 4, 12)
"""Prefixes per question for which steps are recorded; more are done unrecorded."""


class DecoderCache:
    """Where the tensors of some questions lie: as many as fit, of shapes that do not change."""

    def __init__(self, model: JointModel, shape: tuple[int, int, int]) -> None:
        """Make room for so many questions, vectors of memory and candidates of each."""
        self.model, (questions, longest, candidates) = model, shape
        self.shape = shape
        like = model.decoder.norm.weight
        d = model.decoder.config.d_model
        self.memory = like.new_zeros(questions, longest, d)
        self.lengths = torch.ones(questions, dtype=torch.int32, device=like.device)
        self.inputs = like.new_zeros(questions, candidates, d)
        self.keys = like.new_zeros(questions, candidates, d)
        self.prior = torch.zeros(questions, candidates, device=like.device)
        self.inside = torch.zeros(questions, candidates, dtype=torch.bool, device=like.device)
        self.owner: object = None
        self._recorded: dict[tuple[int, int], CudaGraph] = {}
        config, layers = model.decoder.config, len(model.decoder.layers)
        self.places = 32 * questions  # for prefixes, and one more that stands for none
        kept = layers, self.places + 1, 2, config.num_heads, config.d_kv
        self.cache = like.new_zeros(kept)

    def double_places(self) -> None:
        """Have places for twice as many prefixes."""
        longer = torch.cat([self.cache[:, :-1], self.cache], dim=1)
        self.cache, self.places = longer, 2 * self.places
        self._recorded.clear()

    def fill(self, encoded: EncodedBatch, owner: object) -> None:
        """Let questions in, in place of others."""
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
        self.inside.zero_()
        self.inside[:count, :candidates] = encoded.mask
        self.inside[count:, 0] = True  # a softmax over nothing is not a number

    @property
    def is_recorded(self) -> bool:
        """Whether steps are of few shapes, for all questions at once."""
        return uses_inference_kernels(self.memory)

    def narrowed(self, questions: list[int]) -> "DecoderCache":
        """Return a room for some of the questions, with the same places."""
        if len(questions) == self.shape[0]:
            return self
        room = copy(self)
        room.shape = len(questions), *self.shape[1:]
        for name in ("memory", "lengths", "inputs", "keys", "prior", "inside"):
            setattr(room, name, getattr(self, name)[questions])
        return room

    def step(self, asked: NDArray[np.int32], depth: int) -> Tensor:
        """Return log-probabilities (Q, S, C) for what is asked, (Q · S, 1 + 2 · depth) numbers."""
        slots = len(asked) // self.shape[0]
        numbers = torch.from_numpy(asked)
        if not self.is_recorded or slots not in SLOTS:
            return step(self, numbers.to(self.memory.device), depth)
        if (slots, depth) not in self._recorded:
            blank = torch.full(asked.shape, -1, dtype=torch.int32)
            blank[:, :2] = torch.tensor([0, self.places])  # no prefix, kept nowhere
            work = partial(step, self, depth=depth)
            self._recorded[slots, depth] = CudaGraph(work, [blank], self.memory.device)
        return self._recorded[slots, depth](numbers)


def step(room: DecoderCache, asked: Tensor, depth: int) -> Tensor:
    """Run the decoder on the last passage of each prefix, and remember it.

    `asked` (P, 1 + 2 · depth) has for each prefix its length, the places of its beginnings and,
    after them, its own, then its passages; -1 beyond them.
    """
    questions, _, candidates = room.shape
    model, slots = room.model, len(asked) // questions
    path, passages = asked[:, : 1 + depth], asked[:, 1 + depth :].long()
    question = torch.arange(len(asked), device=asked.device) // slots
    length = asked[:, :1].long()
    last = passages.gather(1, (length - 1).clamp(min=0)).clamp(min=0)[:, 0]
    first = model.head.start_input().to(room.inputs.dtype)
    x = torch.where(length > 0, room.inputs[question, last], first)  # (P, d)
    back = model.decoder.relative(-torch.arange(depth, device=asked.device)).float()
    for layer, block in enumerate(model.decoder.layers):

        def attend_self(
            q: Tensor, k: Tensor, v: Tensor, cache: Tensor = room.cache[layer]
        ) -> Tensor:
            return _look_back(q, k, v, cache, path, back)

        def attend_cross(q: Tensor, cross: CrossAttention = block.cross) -> Tensor:
            return _look_up(q, cross, room.memory, room.lengths)

        x = block(x, attend_self, attend_cross)
    hidden = model.decoder.norm(x).view(questions, slots, -1)
    taken = torch.zeros(len(asked), candidates + 1, dtype=torch.bool, device=asked.device)
    taken = taken.scatter(1, passages.where(passages >= 0, candidates), True)[:, :-1]
    out = taken.view(questions, slots, -1) | ~room.inside[:, None]
    return masked_log_softmax(model.head.logits(hidden, room.keys, room.prior), out)


def _look_back(
    q: Tensor, k: Tensor, v: Tensor, cache: Tensor, path: Tensor, bias: Tensor
) -> Tensor:
    """Attend to each prefix's beginnings and itself, (P, heads, d_kv), and remember the latter."""
    if uses_inference_kernels(q):
        from jpr.models.kernels.inference import step_attend

        return step_attend(q, k, v, cache, path, bias)
    length, places = path[:, 0].long(), path[:, 1:].long()
    own = places.gather(1, length[:, None])[:, 0]
    cache[own] = torch.stack([k, v], dim=1).to(cache.dtype)
    keys, values = cache[places].float().unbind(2)  # (P, D, heads, d_kv)
    back = length[:, None] - torch.arange(places.shape[1], device=q.device)  # (P, D)
    scores = torch.einsum("phk,pdhk->pdh", q.float(), keys) + bias[back.clamp(min=0)]
    shares = scores.masked_fill((places < 0)[..., None], -torch.inf).softmax(1)
    return torch.einsum("pdh,pdhk->phk", shares, values).to(q.dtype)


def _look_up(q: Tensor, cross: CrossAttention, memory: Tensor, lengths: Tensor) -> Tensor:
    """Attend to each prefix's own memory, queries (P, heads, d_kv) to the same."""
    heads, d_kv = q.shape[1:]
    questions, _, d = memory.shape
    key, value = (w.weight.view(heads, d_kv, d).to(q.dtype) for w in (cross.k, cross.v))
    asked = (q.transpose(0, 1) @ key).view(heads, questions, -1, d)  # (heads, Q, S, d)
    asked = asked.transpose(0, 1).reshape(questions, -1, d)
    memory = memory.to(q.dtype)
    shares = _shares(asked @ memory.transpose(1, 2), lengths)  # (Q, heads · S, M)
    mixed = (shares @ memory).view(questions, heads, -1, d).transpose(0, 1)
    mixed = mixed.reshape(heads, -1, d) @ value.transpose(1, 2)  # (heads, P, d_kv)
    return mixed.transpose(0, 1)


def _shares(scores: Tensor, lengths: Tensor) -> Tensor:
    if uses_inference_kernels(scores):
        from jpr.models.kernels.inference import softmax_

        return softmax_(scores, lengths)
    there = length_mask(lengths, scores.shape[-1])[:, None]
    return scores.float().masked_fill(~there, -torch.inf).softmax(-1).to(scores.dtype)


class CachePool:
    """The rooms of a model, one of each shape for each thread, and recordings of its encoder."""

    def __init__(self, model: JointModel) -> None:
        """Begin with none."""
        self._model, self._mine = model, threading.local()
        self._recordings = CudaGraphCache()

    @torch.inference_mode()
    def encode(self, candidates: PackedCandidates) -> EncodedBatch:
        """Read every candidate, as the model does by itself."""
        if not uses_inference_kernels(self._model.decoder.norm.weight):
            return self._model.encode(candidates)
        return self._model.encode(candidates, self._packed)

    def _packed(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """Map rows of `lengths` (B,) laid end to end, ids (N,), to (N, d), by recordings."""
        rows = counts(lengths, len(ids))
        return in_parts(ids, rows, Grouping.of(ids.device).budget, self._recorded)

    def _recorded(self, ids: Tensor, rows: Whole) -> Tensor:
        """Pad to a shape that comes again; what lies after the last row's end belongs to none."""
        encoder = self._model.encoder
        grain = 1024 if len(ids) > 8192 else 128
        longest = max(64, power(int(rows.max())))
        padded = F.pad(ids, (0, -len(ids) % grain))
        ends = np.append(0, rows.cumsum()).astype(np.int32)
        ends = np.pad(ends, (0, -len(rows) % 32), mode="edge")
        key = len(padded), len(ends), longest
        work = partial(encoder.forward_varlen, longest=longest)
        found = self._recordings.play(key, work, padded, torch.from_numpy(ends), device=ids.device)
        return found[: len(ids)].clone()

    def of(self, encoded: EncodedBatch) -> DecoderCache:
        """Return a room with space for these questions; on a GPU, one that can be used again."""
        questions, candidates = encoded.mask.shape
        longest = int(encoded.memory_lengths.max())
        if not uses_inference_kernels(self._model.decoder.norm.weight):
            return DecoderCache(self._model, (questions, longest, candidates))
        grain = 2048 if longest > 2048 else 64
        shape = power(questions), -(-longest // grain) * grain, -(-candidates // 32) * 32
        known: dict[tuple[int, int, int], DecoderCache] = self._mine.__dict__.setdefault(
            "rooms", {}
        )
        if shape not in known:
            known[shape] = DecoderCache(self._model, shape)
        return known[shape]


def power(count: int) -> int:
    """Return the next power of two."""
    return 1 << (count - 1).bit_length()
