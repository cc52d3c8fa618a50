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
from torch import nn

from jpr.models.heads import IndexHead, PointerHead
from jpr.models.joint import JointModel
from jpr.models.onnx_graph import MICROSOFT, Graph, Outputs, Shape
from jpr.models.t5 import T5Decoder
from jpr.models.t5_blocks import CrossAttention, DecoderBlock, FeedForward

_FLOAT, _INT64 = TensorProto.FLOAT, TensorProto.INT64


def step_to_onnx(model: JointModel, int8: bool, about: Mapping[str, str]) -> bytes:
    """Return a model of the step, its matrices in int8 or float32, with metadata `about`."""
    config, head = model.decoder.config, model.head
    layers, d, inner = len(model.decoder.layers), config.d_model, config.inner
    graph = _StepGraph(model, int8)
    bias = graph.bias(model.decoder)
    x = graph.inputs(head)
    caches = []
    for i, block in enumerate(model.decoder.layers):
        x, cache = graph.block(i, x, block, bias)
        caches.append(cache)
    hidden = graph.rms_norm(x, model.decoder.norm)
    least = graph.constant("least", np.float32(-np.inf))
    logits = graph.add("Where", "taken", least, graph.logits(head, hidden))
    keys, values = (graph.add("Concat", *part, axis=0) for part in zip(*caches, strict=True))
    inputs: dict[str, Shape] = {
        "last": (_INT64, ["P"]),
        "path": (_INT64, ["P", "D"]),
        "back": (_INT64, ["P", "D"]),
        "taken": (TensorProto.BOOL, ["P", "C"]),
        "keys": (_FLOAT, [layers, "N", inner]),
        "values": (_FLOAT, [layers, "N", inner]),
        "memory": (_FLOAT, ["M", d]),
    }
    if isinstance(head, PointerHead):
        inputs |= {"marked": (_FLOAT, ["C", d]), "prior": (_FLOAT, ["C"])}
    else:
        inputs["numbers"] = _INT64, ["C"]
    outputs: Outputs = {
        "log_probs": (graph.add("LogSoftmax", logits, axis=-1), (_FLOAT, ["P", "C"])),
        "new_keys": (keys, (_FLOAT, [layers, "P", inner])),
        "new_values": (values, (_FLOAT, [layers, "P", inner])),
    }
    return graph.model(inputs, outputs, about)


def add_feed_forward(graph: Graph, x: str, feed: FeedForward) -> str:
    """Add a feed-forward layer of a T5."""
    wide = graph.linear(x, feed.up)
    if feed.gated:
        gate, wide = graph.split(wide, 2)
        wide = graph.add("Mul", graph.add("FastGelu", gate, domain=MICROSOFT), wide)
    else:
        wide = graph.add("Relu", wide)
    return graph.linear(wide, feed.down)


class _StepGraph(Graph):
    """A head, and the blocks of a decoder over the last passage of each prefix."""

    def __init__(self, model: JointModel, int8: bool) -> None:
        """Store the head's matrices; of a T5's vocabulary only the index tokens."""
        super().__init__(model.decoder.named_modules(), {} if int8 else None)
        head = model.head
        if isinstance(head, PointerHead):
            parts = {name: getattr(head, name).weight for name in ("query", "key", "chosen")}
        else:
            parts = {"words": head.words.weight[head.tokens], "out": head.output_words[head.tokens]}
        self._head = {name: self.matrix(f"head.{name}", weight) for name, weight in parts.items()}
        self._heads = model.decoder.config.num_heads
        self._by_head = self.ints(0, self._heads, -1)  # (P, inner) to (P, heads, d_kv)
        self._flat = self.ints(0, -1)

    def inputs(self, head: PointerHead | IndexHead) -> str:
        """Add the decoder's inputs (P, d), the start vector where no passage was chosen yet."""
        if isinstance(head, PointerHead):
            marked = self.add("Gather", "marked", "last")
            key = self.add("Gemm", marked, self._head["key"], transB=1)
            chosen = self.add("Gemm", key, self._head["chosen"], transB=1)
        else:
            chosen = self.add("Gather", self._head["words"], self.add("Gather", "numbers", "last"))
        some = self.add("GreaterOrEqual", "last", self.constant("none", np.int64(0)))
        is_chosen = self.add("Unsqueeze", some, self.ints(1))
        start = self.constant("head.start", head.start)
        return self.add("Where", is_chosen, chosen, start)

    def logits(self, head: PointerHead | IndexHead, hidden: str) -> str:
        """Add the logits of candidates (P, C)."""
        if isinstance(head, IndexHead):
            rows = self.add("Gather", self._head["out"], "numbers")
            return self.add("Gemm", hidden, rows, transB=1, alpha=head.scale)
        query = self.add("Gemm", hidden, self._head["query"], transB=1)
        query = self.add("MatMul", query, self._head["key"])
        agreement = self.add("Gemm", query, "marked", transB=1, alpha=head.scale)
        prior = self.add("Mul", "prior", self.constant("head.prior", head.prior))
        return self.add("Add", agreement, prior)

    def linear(self, x: str, linear: nn.Linear) -> str:
        """Add a linear layer without bias, (P, in) to (P, out)."""
        return self.add("Gemm", x, self._matrix_of(linear), transB=1)

    def _matrix_of(self, linear: nn.Linear) -> str:
        return self.matrix(f"{self.names[linear]}.weight", linear.weight)

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
        normed = self.rms_norm(x, block.norm1)
        q, k, v = self.split(self.linear(normed, block.attention.qkv), 3)
        mixed = self._attend_ancestors(i, q, (k, v), bias)
        x = self.add("Add", x, self.linear(mixed, block.attention.o))
        x = self.add("Add", x, self._attend_memory(self.rms_norm(x, block.norm2), block.cross))
        x = self.add("Add", x, add_feed_forward(self, self.rms_norm(x, block.norm3), block.feed))
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

    def _attend_memory(self, x: str, cross: CrossAttention) -> str:
        """Add attention to the memory (P, inner)."""
        d = cross.k.in_features
        q = self.add("Reshape", self.linear(x, cross.q), self._by_head)
        shape = self.ints(self._heads, -1, d)
        key, value = (  # (heads, d_kv, d)
            self.add("Reshape", self._matrix_of(part), shape) for part in (cross.k, cross.v)
        )
        query = self.add("MatMul", self.add("Transpose", q, perm=[1, 0, 2]), key)
        query = self.add("Reshape", query, self.ints(-1, d))  # (heads · P, d)
        scores = self.add("Gemm", query, "memory", transB=1)  # (heads · P, M)
        mixed = self.add("MatMul", self.add("Softmax", scores, axis=-1), "memory")
        mixed = self.add("Reshape", mixed, shape)  # (heads, P, d)
        mixed = self.add("MatMul", mixed, self.add("Transpose", value, perm=[0, 2, 1]))
        mixed = self.add("Reshape", self.add("Transpose", mixed, perm=[1, 0, 2]), self._flat)
        return self.linear(mixed, cross.o)
