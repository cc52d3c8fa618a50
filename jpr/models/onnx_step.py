"""One step of a joint model's decoder as an ONNX model: P prefixes of one question.

It takes, of each prefix, its `last` passage (-1 for none), the slots of its ancestors and itself in
the caches, those of this step at their end (`path` (P, D), -1 for none), the distance `back` to
each, and which candidates are `taken`; the caches `keys` and `values` (layers, N, heads · d_kv); of
the question, its `memory` (M, d), and what the head needs of the candidates: `marked` (C, d) and
`prior` (C,), or `numbers` (C,), their index ids. It returns `log_probs` (P, C), and `new_keys` and
`new_values` (layers, P, heads · d_kv).

As in `jpr.models.decoder_cache`, attention to the memory is reassociated, and so is the pointer's
product with the candidates. The weights may be stored in int8; products are in float32.
"""

from collections.abc import Mapping

import numpy as np
import torch
from onnx import TensorProto
from torch import Tensor, nn

from jpr.models.heads import IndexHead, PointerHead
from jpr.models.joint import JointModel
from jpr.models.onnx_graph import MICROSOFT, Graph, Shape
from jpr.models.t5 import T5Decoder
from jpr.models.t5_blocks import CrossAttention, DecoderBlock, FeedForward

_FLOAT, _INT64 = TensorProto.FLOAT, TensorProto.INT64


def step_to_onnx(model: JointModel, int8: bool, about: Mapping[str, str]) -> bytes:
    """Return a model of the step, its matrices in int8 or float32, with metadata `about`."""
    config = model.decoder.config
    layers, inner = len(model.decoder.layers), config.inner
    graph = _StepGraph(model, int8)
    bias = graph.bias(model.decoder)
    x = graph.head.last()
    caches = []
    for i, block in enumerate(model.decoder.layers):
        x, cache = graph.block(i, x, block, bias)
        caches.append(cache)
    hidden = graph.rms_norm("norm", x, model.decoder.norm)
    least = graph.constant("least", np.float32(-np.inf))
    logits = graph.add("Where", "taken", least, graph.head.logits(hidden))
    new = [graph.add("Concat", *part, axis=0) for part in zip(*caches, strict=True)]
    cache_shape: Shape = (_FLOAT, [layers, "N", inner])
    inputs: dict[str, Shape] = {
        "last": (_INT64, ["P"]),
        "path": (_INT64, ["P", "D"]),
        "back": (_INT64, ["P", "D"]),
        "taken": (TensorProto.BOOL, ["P", "C"]),
        "keys": cache_shape,
        "values": cache_shape,
        "memory": (_FLOAT, ["M", config.d_model]),
        **graph.head.inputs,
    }
    outputs: dict[str, tuple[str, Shape]] = {
        "log_probs": (graph.add("LogSoftmax", logits, axis=-1), (_FLOAT, ["P", "C"])),
        "new_keys": (new[0], (_FLOAT, [layers, "P", inner])),
        "new_values": (new[1], (_FLOAT, [layers, "P", inner])),
    }
    return graph.model(inputs, outputs, about)


def add_feed_forward(graph: Graph, name: str, x: str, feed: FeedForward) -> str:
    """Add a feed-forward layer of a T5."""
    wide = graph.linear(f"{name}.up", x, feed.up)
    if feed.gated:
        gate, wide = graph.split(wide, 2)
        wide = graph.add("Mul", graph.add("FastGelu", gate, domain=MICROSOFT), wide)
    else:
        wide = graph.add("Relu", wide)
    return graph.linear(f"{name}.down", wide, feed.down)


class _StepGraph(Graph):
    """A head, and the blocks of a decoder over the last passage of each prefix."""

    def __init__(self, model: JointModel, int8: bool) -> None:
        super().__init__(int8)
        if isinstance(model.head, PointerHead):
            self.head: _Pointer | _Index = _Pointer(self, model.head)
        else:
            self.head = _Index(self, model.head)
        self._heads = model.decoder.config.num_heads
        self._by_head = self.ints(0, self._heads, -1)  # (P, inner) to (P, heads, d_kv)
        self._flat = self.ints(0, -1)

    def linear(self, name: str, x: str, linear: nn.Linear) -> str:
        """Add a linear layer without bias, (P, in) to (P, out)."""
        return self.add("Gemm", x, self.matrix(f"{name}.weight", linear.weight), transB=1)

    def bias(self, decoder: T5Decoder) -> str:
        """Add the bias of ancestors' scores (P, heads, 1, D)."""
        relative = decoder.relative
        table = self.constant("relative", relative(-torch.arange(relative.farthest + 1)))
        farthest = self.constant("farthest", np.int64(relative.farthest))
        found = self.add("Gather", table, self.add("Min", "back", farthest))  # (P, D, heads)
        found = self.add("Transpose", found, perm=[0, 2, 1])
        absent = self.add("Less", "path", self.constant("none", np.int64(0)))
        never = self.constant("never", np.float32(-np.inf))
        masked = self.add("Where", self.add("Unsqueeze", absent, self.ints(1)), never, found)
        return self.add("Unsqueeze", masked, self.ints(2))

    def block(self, i: int, x: str, block: DecoderBlock, bias: str) -> tuple[str, tuple[str, str]]:
        """Add a block, (P, d) to (P, d); also return new keys and values (1, P, inner)."""
        name = f"blocks.{i}"
        normed = self.rms_norm(f"{name}.norm1", x, block.norm1)
        qkv = self.linear(f"{name}.attention.qkv", normed, block.attention.qkv)
        q, k, v = self.split(qkv, 3)
        mixed = self._attend_ancestors(i, q, (k, v), bias)
        mixed = self.linear(f"{name}.attention.o", mixed, block.attention.o)
        x = self.add("Add", x, mixed)
        normed = self.rms_norm(f"{name}.norm2", x, block.norm2)
        x = self.add("Add", x, self._attend_memory(f"{name}.cross", normed, block.cross))
        normed = self.rms_norm(f"{name}.norm3", x, block.norm3)
        fed = add_feed_forward(self, f"{name}.feed", normed, block.feed)
        x = self.add("Add", x, fed)
        first = self.ints(0)
        return x, (self.add("Unsqueeze", k, first), self.add("Unsqueeze", v, first))

    def _attend_ancestors(self, i: int, q: str, new: tuple[str, str], bias: str) -> str:
        """Add attention to the ancestors of each prefix and to itself (P, inner)."""
        layer = self.constant(f"layer.{i}", np.int64(i))
        by_head = self.ints(0, 0, self._heads, -1)
        known = []
        for cache, own in zip(("keys", "values"), new, strict=True):
            old = self.add("Gather", cache, layer, axis=0)  # (N, inner)
            found = self.add("Gather", self.add("Concat", old, own, axis=0), "path")
            known.append(self.add("Reshape", found, by_head))  # (P, D, heads, d_kv)
        keys = self.add("Transpose", known[0], perm=[0, 2, 3, 1])
        values = self.add("Transpose", known[1], perm=[0, 2, 1, 3])
        query = self.add("Unsqueeze", self.add("Reshape", q, self._by_head), self.ints(2))
        scores = self.add("Add", self.add("MatMul", query, keys), bias)  # (P, heads, 1, D)
        mixed = self.add("MatMul", self.add("Softmax", scores, axis=-1), values)
        return self.add("Reshape", mixed, self._flat)

    def _attend_memory(self, name: str, x: str, cross: CrossAttention) -> str:
        """Add attention to the memory (P, inner)."""
        d = cross.k.in_features
        q = self.add("Reshape", self.linear(f"{name}.q", x, cross.q), self._by_head)
        shape = self.ints(self._heads, -1, d)
        key, value = (
            self.add("Reshape", self.matrix(f"{name}.{part}.weight", w.weight), shape)
            for part, w in (("k", cross.k), ("v", cross.v))
        )  # (heads, d_kv, d)
        query = self.add("MatMul", self.add("Transpose", q, perm=[1, 0, 2]), key)
        query = self.add("Reshape", query, self.ints(-1, d))  # (heads · P, d)
        scores = self.add("Gemm", query, "memory", transB=1)  # (heads · P, M)
        mixed = self.add("MatMul", self.add("Softmax", scores, axis=-1), "memory")
        mixed = self.add("Reshape", mixed, shape)  # (heads, P, d)
        mixed = self.add("MatMul", mixed, self.add("Transpose", value, perm=[0, 2, 1]))
        mixed = self.add("Reshape", self.add("Transpose", mixed, perm=[1, 0, 2]), self._flat)
        return self.linear(f"{name}.o", mixed, cross.o)


class _Pointer:
    """The pointer head's part of a step."""

    def __init__(self, graph: Graph, head: PointerHead) -> None:
        self._graph, self._head = graph, head
        self._query, self._key, self._chosen = (
            graph.matrix(f"head.{name}", getattr(head, name).weight)
            for name in ("query", "key", "chosen")
        )
        self.inputs: dict[str, Shape] = {
            "marked": (_FLOAT, ["C", head.start.shape[0]]),
            "prior": (_FLOAT, ["C"]),
        }

    def last(self) -> str:
        """Add the decoder's inputs (P, d)."""
        graph = self._graph
        key = graph.add("Gemm", graph.add("Gather", "marked", "last"), self._key, transB=1)
        chosen = graph.add("Gemm", key, self._chosen, transB=1)
        return _or_start(graph, chosen, self._head.start_input())

    def logits(self, hidden: str) -> str:
        """Add the logits of candidates (P, C)."""
        graph, head = self._graph, self._head
        query = graph.add("Gemm", hidden, self._query, transB=1)
        query = graph.add("MatMul", query, self._key)
        agreement = graph.add("Gemm", query, "marked", transB=1, alpha=head.scale)
        prior = graph.add("Mul", "prior", graph.constant("head.prior", head.prior))
        return graph.add("Add", agreement, prior)


class _Index:
    """The index head's part; of a T5's vocabulary only the index tokens are stored."""

    def __init__(self, graph: Graph, head: IndexHead) -> None:
        self._graph, self._head = graph, head
        self._words = graph.matrix("head.words", head.words.weight[head.tokens])
        self._out = graph.matrix("head.out", head.output_words[head.tokens])
        self.inputs: dict[str, Shape] = {"numbers": (_INT64, ["C"])}

    def last(self) -> str:
        """Add the decoder's inputs (P, d)."""
        graph = self._graph
        index_id = graph.add("Gather", "numbers", "last")
        chosen = graph.add("Gather", self._words, index_id)
        return _or_start(graph, chosen, self._head.start_input())

    def logits(self, hidden: str) -> str:
        """Add the logits of candidates (P, C)."""
        rows = self._graph.add("Gather", self._out, "numbers")
        return self._graph.add("Gemm", hidden, rows, transB=1, alpha=self._head.scale)


def _or_start(graph: Graph, chosen: str, start: Tensor) -> str:
    """Take the start vector where no passage was chosen yet."""
    some = graph.add("GreaterOrEqual", "last", graph.constant("none", np.int64(0)))
    is_chosen = graph.add("Unsqueeze", some, graph.ints(1))
    return graph.add("Where", is_chosen, chosen, graph.constant("head.start", start))
