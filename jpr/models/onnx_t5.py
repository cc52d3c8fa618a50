"""A T5's encoder and one step of its decoder, as parts of ONNX graphs.

The step is for P prefixes of one question over caches of their ancestors; see
`jpr.models.onnx_joint` for what it takes.
"""

from collections.abc import Callable

import numpy as np
import torch
from onnx import TensorProto
from torch import Tensor, nn

from jpr.models.onnx_export import distances
from jpr.models.onnx_graph import OURS, Graph, Multiply, in_bytes
from jpr.models.t5 import T5Decoder, T5Encoder
from jpr.models.t5_blocks import CrossAttention, DecoderBlock, EncoderBlock, FeedForward

Keep = Callable[[Graph, str, Tensor], str]
"""Keeps a matrix (out, in) under a name and returns the name of its numbers in 32 bits."""


def keep_numbers(graph: Graph, name: str, weight: Tensor) -> str:
    """Keep a matrix in 32 bits."""
    return graph.constant(name, weight)


def keep_bytes(graph: Graph, name: str, weight: Tensor) -> str:
    """Keep a matrix in 8 bits, a step for each row."""
    codes, steps = in_bytes(weight.detach())
    kept = graph.constant(name, codes), graph.constant(f"{name}.step", steps[:, 0])
    return graph.add("DequantizeLinear", *kept, axis=0)


def t5_vectors(graph: Graph, t5: T5Encoder, found: str, place: str, multiply: Multiply) -> str:
    """Add an encoder, from vectors of words to vectors of tokens (B, T, d)."""
    farthest = t5.relative.farthest  # whatever is beyond has the same bias
    by_distance = t5.relative(torch.arange(-farthest, farthest + 1))
    bias = distances(graph, place, graph.constant("relative", by_distance), farthest)
    counts = graph.add("Cast", "lengths", to=TensorProto.INT32)
    x = found
    for i, block in enumerate(t5.blocks):
        assert isinstance(block, EncoderBlock)
        name = f"blocks.{i}"
        normed = graph.rms_norm(f"{name}.norm1", x, block.norm1)
        qkv = multiply(graph, f"{name}.attention.qkv", normed, block.attention.qkv)
        given = (*graph.split(qkv, 3), "", counts, bias)
        heads = block.attention.heads
        mixed = graph.add("MultiHeadAttention", *given, domain=OURS, num_heads=heads, scale=1.0)
        mixed = multiply(graph, f"{name}.attention.o", mixed, block.attention.o)
        x = graph.add("Add", x, mixed)
        normed = graph.rms_norm(f"{name}.norm2", x, block.norm2)
        x = graph.add("Add", x, _feed(graph, f"{name}.feed", normed, block.feed, multiply))
    return graph.rms_norm("norm", x, t5.norm)


def _feed(graph: Graph, name: str, x: str, feed: FeedForward, multiply: Multiply) -> str:
    wide = multiply(graph, f"{name}.up", x, feed.up)
    if feed.gated:
        gate, wide = graph.split(wide, 2)
        wide = graph.add("Mul", graph.add("FastGelu", gate, domain=OURS), wide)
    else:
        wide = graph.add("Relu", wide)
    return multiply(graph, f"{name}.down", wide, feed.down)


class DecoderStep:
    """The blocks of a decoder, over the last passage of each prefix."""

    def __init__(self, graph: Graph, keep: Keep, heads: int) -> None:
        """Begin; heads are those of every layer."""
        self._graph, self._keep, self._heads = graph, keep, heads
        self._by_head = graph.whole(0, heads, -1)  # (P, inner) to (P, heads, d_kv)
        self._flat = graph.whole(0, -1)

    def bias(self, decoder: T5Decoder) -> str:
        """Add what is added to the scores of ancestors (P, heads, 1, D)."""
        graph = self._graph
        relative = decoder.relative
        table = graph.constant("relative", relative(-torch.arange(relative.farthest + 1)))
        farthest = graph.constant("farthest", np.int64(relative.farthest))
        found = graph.add("Gather", table, graph.add("Min", "back", farthest))  # (P, D, heads)
        found = graph.add("Transpose", found, perm=[0, 2, 1])
        absent = graph.add("Less", "path", graph.constant("none", np.int64(0)))
        never = graph.constant("never", np.float32(-np.inf))
        masked = graph.add("Where", graph.add("Unsqueeze", absent, graph.whole(1)), never, found)
        return graph.add("Unsqueeze", masked, graph.whole(2))

    def block(self, i: int, x: str, block: DecoderBlock, bias: str) -> tuple[str, tuple[str, str]]:
        """Add a block (P, d) to the same, and return the new keys and values (1, P, inner) too."""
        graph, name = self._graph, f"blocks.{i}"
        normed = graph.rms_norm(f"{name}.norm1", x, block.norm1)
        qkv = self.multiply(graph, f"{name}.attention.qkv", normed, block.attention.qkv)
        q, k, v = graph.split(qkv, 3)
        mixed = self._ancestors(i, q, (k, v), bias)
        mixed = self.multiply(graph, f"{name}.attention.o", mixed, block.attention.o)
        x = graph.add("Add", x, mixed)
        normed = graph.rms_norm(f"{name}.norm2", x, block.norm2)
        x = graph.add("Add", x, self._memory(f"{name}.cross", normed, block.cross))
        normed = graph.rms_norm(f"{name}.norm3", x, block.norm3)
        x = graph.add("Add", x, _feed(graph, f"{name}.feed", normed, block.feed, self.multiply))
        first = graph.whole(0)
        return x, (graph.add("Unsqueeze", k, first), graph.add("Unsqueeze", v, first))

    def multiply(self, graph: Graph, name: str, x: str, linear: nn.Linear) -> str:
        """Add a linear layer without bias."""
        kept = self._keep(graph, f"{name}.weight", linear.weight)
        return graph.add("Gemm", x, kept, transB=1)

    def _ancestors(self, i: int, q: str, new: tuple[str, str], bias: str) -> str:
        """Add attention to the ancestors of each prefix and to itself (P, inner)."""
        graph = self._graph
        layer = graph.constant(f"layer.{i}", np.int64(i))
        by_head = graph.whole(0, 0, self._heads, -1)
        known = []
        for cache, own in zip(("keys", "values"), new, strict=True):
            old = graph.add("Gather", cache, layer, axis=0)  # (N, inner)
            found = graph.add("Gather", graph.add("Concat", old, own, axis=0), "path")
            known.append(graph.add("Reshape", found, by_head))  # (P, D, heads, d_kv)
        keys = graph.add("Transpose", known[0], perm=[0, 2, 3, 1])
        values = graph.add("Transpose", known[1], perm=[0, 2, 1, 3])
        query = graph.add("Unsqueeze", graph.add("Reshape", q, self._by_head), graph.whole(2))
        scores = graph.add("Add", graph.add("MatMul", query, keys), bias)  # (P, heads, 1, D)
        mixed = graph.add("MatMul", graph.add("Softmax", scores, axis=-1), values)
        return graph.add("Reshape", mixed, self._flat)

    def _memory(self, name: str, x: str, cross: CrossAttention) -> str:
        """Add attention to the memory (P, inner): the query taken there, the mixture back."""
        graph, heads = self._graph, self._heads
        d = cross.k.in_features
        q = graph.add("Reshape", self.multiply(graph, f"{name}.q", x, cross.q), self._by_head)
        shape = graph.whole(heads, -1, d)
        key, value = (
            graph.add("Reshape", self._keep(graph, f"{name}.{part}.weight", w.weight), shape)
            for part, w in (("k", cross.k), ("v", cross.v))
        )  # (heads, d_kv, d)
        asked = graph.add("MatMul", graph.add("Transpose", q, perm=[1, 0, 2]), key)
        asked = graph.add("Reshape", asked, graph.whole(-1, d))  # (heads · P, d)
        scores = graph.add("Gemm", asked, "memory", transB=1)  # (heads · P, M)
        mixed = graph.add("MatMul", graph.add("Softmax", scores, axis=-1), "memory")
        mixed = graph.add("Reshape", mixed, shape)  # (heads, P, d)
        mixed = graph.add("MatMul", mixed, graph.add("Transpose", value, perm=[0, 2, 1]))
        mixed = graph.add("Reshape", graph.add("Transpose", mixed, perm=[1, 0, 2]), self._flat)
        return self.multiply(graph, f"{name}.o", mixed, cross.o)
