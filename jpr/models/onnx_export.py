"""A tower as one ONNX file for the CPU: ids (B, T) and lengths (B,) to vectors (B, d).

In 8 bits, words and matrices are stored as whole numbers and multiplied as such; how these are
found is in `jpr.models.quantize`.
"""

from collections.abc import Sequence

import numpy as np
import torch
from onnx import TensorProto

from jpr.models.bert import Bert, BertBlock
from jpr.models.onnx_graph import (
    OURS,
    Graph,
    Multiply,
    Shape,
    by_whole_numbers,
    words,
    words_in_bytes,
)
from jpr.models.quantize import quantize_matrices
from jpr.models.tower import Tower

TOKENS: dict[str, Shape] = {
    "ids": (TensorProto.INT64, ["B", "T"]),
    "lengths": (TensorProto.INT64, ["B"]),
}
"""What encoders take."""


def tower_to_onnx(tower: Tower) -> bytes:
    """Return a tower as an ONNX model in 32 bits."""
    graph = Graph()
    return _model(tower, graph, words(graph, tower.bert.words.weight, "ids"), Graph.linear)


def tower_to_onnx_int8(tower: Tower, sample: Sequence[Sequence[int]]) -> bytes:
    """Return a tower as an ONNX model in 8 bits, with scales that fit a sample of token ids."""
    matrices = quantize_matrices(tower.bert, sample)
    graph = Graph()
    found = words_in_bytes(graph, tower.bert.words.weight, "ids")
    return _model(tower, graph, found, by_whole_numbers(matrices))


def _model(tower: Tower, graph: Graph, found: str, multiply: Multiply) -> bytes:
    """Put the model together, from the vectors of the words on."""
    place = places(graph)
    x = bert_vectors(graph, tower.bert, found, place, multiply)
    vector = _head(graph, tower, x, place)
    shape: Shape = (TensorProto.FLOAT, ["B", tower.dimension])
    return graph.model(TOKENS, {"vectors": (vector, shape)})


def places(graph: Graph) -> str:
    """Add the places of tokens (T,), from 0."""
    length = graph.add("Gather", graph.add("Shape", "ids"), graph.constant("one", np.int64(1)))
    return graph.add("Range", graph.constant("zero", np.int64(0)), length, "one")


def bert_vectors(graph: Graph, bert: Bert, found: str, place: str, multiply: Multiply) -> str:
    """Add an encoder, from vectors of words to vectors of tokens (B, T, d)."""
    x = graph.add("Add", found, graph.add("Gather", _positions(graph, bert), place))
    x = graph.norm("norm", x, bert.norm)
    bias = _relative(graph, bert, place) if bert.is_mpnet else ""
    counts = graph.add("Cast", "lengths", to=TensorProto.INT32)
    for i, block in enumerate(bert.blocks):
        assert isinstance(block, BertBlock)
        x = _block(graph, f"blocks.{i}", x, block, (counts, bias), multiply)
    return x


def distances(graph: Graph, place: str, table: str, farthest: int) -> str:
    """Add a bias (1, heads, T, T), by distances in a table from -farthest to farthest."""
    rows = graph.add("Unsqueeze", place, graph.whole(1))
    distance = graph.add("Sub", graph.add("Unsqueeze", place, graph.whole(0)), rows)
    least, most = (
        graph.constant(f"{k}_distance", np.int64(v))
        for k, v in (("least", -farthest), ("most", farthest))
    )
    near = graph.add("Clip", distance, least, most)
    found = graph.add("Gather", table, graph.add("Add", near, most))  # (T, T, heads)
    return graph.add("Unsqueeze", graph.add("Transpose", found, perm=[2, 0, 1]), graph.whole(0))


def _positions(graph: Graph, bert: Bert) -> str:
    if bert.is_mpnet:
        return graph.constant("positions", bert.positions.weight[bert.config.pad_token_id + 1 :])
    return graph.constant("positions", bert.positions.weight + bert.segments.weight[0])


def _relative(graph: Graph, bert: Bert, place: str) -> str:
    """Add MPNet's bias by distance."""
    n = bert.config.max_position_embeddings
    table = graph.constant("relative", bert.relative(torch.arange(1 - n, n)))
    return distances(graph, place, table, n - 1)


def _block(
    graph: Graph, name: str, x: str, block: BertBlock, mask: tuple[str, str], multiply: Multiply
) -> str:
    """Add attention and the feed-forward layer, each with its norm."""
    q, k, v = graph.split(multiply(graph, f"{name}.qkv", x, block.qkv), 3)
    inputs = (q, k, v, "", *mask) if mask[1] else (q, k, v, "", mask[0])
    mixed = graph.add("MultiHeadAttention", *inputs, domain=OURS, num_heads=block.heads)
    mixed = multiply(graph, f"{name}.out", mixed, block.out)
    x = graph.norm(f"{name}.norm1", graph.add("Add", mixed, x), block.norm1)
    wide = graph.add("Gelu", multiply(graph, f"{name}.up", x, block.up), domain=OURS)
    narrow = multiply(graph, f"{name}.down", wide, block.down)
    return graph.norm(f"{name}.norm2", graph.add("Add", narrow, x), block.norm2)


def _head(graph: Graph, tower: Tower, x: str, place: str) -> str:
    """Add pooling (B, T, d) to (B, d), and what follows it."""
    if tower.head.pooling == "mean":
        axis = graph.whole(1)
        rows = graph.add("Unsqueeze", "lengths", axis)
        inside = graph.add("Less", graph.add("Unsqueeze", place, graph.whole(0)), rows)
        weight = graph.add("Cast", inside, to=TensorProto.FLOAT)  # (B, T)
        count = graph.add("ReduceSum", weight, axis, keepdims=1)
        share = graph.add("Unsqueeze", graph.add("Div", weight, count), axis)  # (B, 1, T)
        vector = graph.add("Squeeze", graph.add("MatMul", share, x), axis)
    else:
        vector = graph.add("Gather", x, "zero", axis=1)
    if tower.head.pooling == "pooler":
        vector = graph.add("Tanh", graph.linear("pooler", vector, tower.pooler))
    if tower.head.projection != "none":
        vector = graph.linear("projection", vector, tower.projection)
    if tower.head.projection == "tanh":
        vector = graph.add("Tanh", vector)
    elif tower.head.projection == "norm":
        vector = graph.norm("projection_norm", vector, tower.projection_norm)
    return graph.add("LpNormalization", vector, axis=-1, p=2) if tower.head.normalise else vector
