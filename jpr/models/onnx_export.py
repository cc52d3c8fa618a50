"""Towers and joint models as ONNX models for the CPU.

    tower     ids (B, T), lengths (B,) → vectors (B, d)
    encoder   ids (B, T), lengths (B,) → vectors (B, T, d) of the tokens
    step      see `jpr.models.onnx_step`

A span head is no part of them: see `jpr.models.span_weights`.

In 8 bits an encoder multiplies integers (`jpr.models.quantize`). That of a joint model has a flag
`exact`: then it multiplies the same matrices in float32, for the few candidates that matter.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from onnx import TensorProto

from jpr.models.bert import Bert, BertBlock
from jpr.models.heads import IndexHead, SpanHead
from jpr.models.joint import JointModel
from jpr.models.joint_config import EXACT_INPUT
from jpr.models.onnx_graph import MICROSOFT, Graph, Modules, Outputs, Shape
from jpr.models.onnx_step import add_feed_forward, step_to_onnx
from jpr.models.quantize import quantize_matrices
from jpr.models.span_weights import SpanWeights
from jpr.models.t5 import T5Encoder
from jpr.models.t5_blocks import EncoderBlock, RelativeBias
from jpr.models.tower import Tower

Sample = Sequence[Sequence[int]]
"""Token ids of typical texts, to which the scales of an int8 model are fitted."""
_INPUTS: dict[str, Shape] = {
    "ids": (TensorProto.INT64, ["B", "T"]),
    "lengths": (TensorProto.INT64, ["B"]),
}


def tower_to_onnx(tower: Tower, sample: Sample | None = None) -> bytes:
    """Return a tower as a model in float32; with a sample of token ids, in int8."""
    graph = _graph_for(tower.bert, tower.named_children(), sample)
    words, positions = graph.embedding(tower.bert.words.weight), _positions(graph)
    x = _bert(graph, tower.bert, words, positions)
    vector = _vector_head(graph, tower, x, positions)
    return graph.model(_INPUTS, {"vectors": (vector, (TensorProto.FLOAT, ["B", tower.dimension]))})


def joint_to_onnx(
    model: JointModel, weights: str, sample: Sample | None = None
) -> tuple[bytes, bytes]:
    """Return the encoder and the step, in float32; with a sample of token ids, in int8.

    Both record the name of the weights.
    """
    numbers = len(model.head.tokens) if isinstance(model.head, IndexHead) else 0
    about = {"memory": model.memory, "numbers": str(numbers), "weights": weights}
    inputs = dict(_INPUTS)
    graph = _graph_for(model.encoder, (), sample)
    words, positions = graph.embedding(model.encoder.words.weight), _positions(graph)
    if sample is None:
        outputs = _encoder(graph, model, words, positions)
    else:
        inputs[EXACT_INPUT] = (TensorProto.BOOL, [])
        build = partial(_encoder, model=model, words=words, positions=positions)
        outputs = graph.either(EXACT_INPUT, build)
    step = step_to_onnx(model, sample is not None, about)
    return graph.model(inputs, outputs, about), step


def span_weights(head: SpanHead) -> SpanWeights:
    """Return a span head's weights for numpy."""
    first = head.first.weight * head.first.out_features**-0.5
    project = torch.cat([head.ends.weight, first, head.last.weight]).T
    arrays = (project, head.ends.bias, head.lengths)
    return SpanWeights(*(w.detach().float().contiguous().numpy() for w in arrays))


def _graph_for(encoder: Bert | T5Encoder, others: Modules, sample: Sample | None) -> Graph:
    """Return an empty graph in which the encoder's matrices are quantized if there is a sample."""
    quantized = None if sample is None else quantize_matrices(encoder, sample)
    return Graph([*encoder.named_modules(), *others], quantized)


def _encoder(graph: Graph, model: JointModel, words: str, positions: str) -> Outputs:
    """Add a joint model's encoder after its embeddings; return its outputs."""
    encoder = model.encoder
    if isinstance(encoder, Bert):
        x = _bert(graph, encoder, words, positions)
    else:
        x = _t5(graph, encoder, words, positions)
    shape: Shape = (TensorProto.FLOAT, ["B", "T", encoder.words.embedding_dim])
    return {"vectors": (x, shape)}


def _positions(graph: Graph) -> str:
    """Add the positions of tokens (T,), from 0."""
    length = graph.add("Gather", graph.add("Shape", "ids"), graph.constant("one", np.int64(1)))
    return graph.add("Range", graph.constant("zero", np.int64(0)), length, "one")


def _relative_bias(graph: Graph, positions: str, relative: RelativeBias, farthest: int) -> str:
    """Add a bias (1, heads, T, T), which is constant beyond the farthest distance."""
    table = graph.constant("relative", relative(torch.arange(-farthest, farthest + 1)))
    rows = graph.add("Unsqueeze", positions, graph.ints(1))
    distance = graph.add("Sub", graph.add("Unsqueeze", positions, graph.ints(0)), rows)
    least = graph.constant("least_distance", np.int64(-farthest))
    most = graph.constant("most_distance", np.int64(farthest))
    near = graph.add("Clip", distance, least, most)
    found = graph.add("Gather", table, graph.add("Add", near, most))  # (T, T, heads)
    return graph.add("Unsqueeze", graph.add("Transpose", found, perm=[2, 0, 1]), graph.ints(0))


def _bert(graph: Graph, bert: Bert, words: str, positions: str) -> str:
    """Add a BERT or MPNet, from embeddings to vectors (B, T, d)."""
    table = bert.positions.weight
    table = table[bert.first_position :] if bert.is_mpnet else table + bert.segments.weight[0]
    x = graph.add("Add", words, graph.add("Gather", graph.constant("positions", table), positions))
    x = graph.layer_norm(x, bert.norm)
    bias: tuple[str, ...] = ()
    if bert.is_mpnet:
        farthest = bert.config.max_position_embeddings - 1
        bias = (_relative_bias(graph, positions, bert.relative, farthest),)
    lengths = graph.add("Cast", "lengths", to=TensorProto.INT32)
    for block in bert.blocks:
        assert isinstance(block, BertBlock)
        qkv = graph.split(graph.linear(x, block.qkv), 3)
        inputs = (*qkv, "", lengths, *bias)
        mixed = graph.add("MultiHeadAttention", *inputs, domain=MICROSOFT, num_heads=block.heads)
        x = graph.layer_norm(graph.add("Add", graph.linear(mixed, block.out), x), block.norm1)
        wide = graph.add("Gelu", graph.linear(x, block.up), domain=MICROSOFT)
        x = graph.layer_norm(graph.add("Add", graph.linear(wide, block.down), x), block.norm2)
    return x


def _t5(graph: Graph, t5: T5Encoder, words: str, positions: str) -> str:
    """Add a T5's encoder, from embeddings to vectors (B, T, d)."""
    bias = _relative_bias(graph, positions, t5.relative, t5.relative.farthest)
    lengths = graph.add("Cast", "lengths", to=TensorProto.INT32)
    x = words
    for block in t5.blocks:
        assert isinstance(block, EncoderBlock)
        attention = block.attention
        qkv = graph.split(graph.linear(graph.rms_norm(x, block.norm1), attention.qkv), 3)
        how = {"num_heads": attention.heads, "scale": 1.0}
        inputs = (*qkv, "", lengths, bias)
        mixed = graph.add("MultiHeadAttention", *inputs, domain=MICROSOFT, **how)
        x = graph.add("Add", x, graph.linear(mixed, attention.o))
        x = graph.add("Add", x, add_feed_forward(graph, graph.rms_norm(x, block.norm2), block.feed))
    return graph.rms_norm(x, t5.norm)


def _vector_head(graph: Graph, tower: Tower, x: str, positions: str) -> str:
    """Add pooling, (B, T, d) to (B, d), and what follows it."""
    head = tower.head
    if head.pooling == "mean":
        axis = graph.ints(1)
        rows = graph.add("Unsqueeze", "lengths", axis)
        inside = graph.add("Less", graph.add("Unsqueeze", positions, graph.ints(0)), rows)
        weight = graph.add("Cast", inside, to=TensorProto.FLOAT)  # (B, T)
        count = graph.add("ReduceSum", weight, axis, keepdims=1)
        share = graph.add("Unsqueeze", graph.add("Div", weight, count), axis)  # (B, 1, T)
        vector = graph.add("Squeeze", graph.add("MatMul", share, x), axis)
    else:
        vector = graph.add("Gather", x, "zero", axis=1)
    if head.pooling == "pooler":
        vector = graph.add("Tanh", graph.linear(vector, tower.pooler))
    if head.projection != "none":
        vector = graph.linear(vector, tower.projection)
    if head.projection == "tanh":
        vector = graph.add("Tanh", vector)
    elif head.projection == "norm":
        vector = graph.layer_norm(vector, tower.projection_norm)
    return graph.add("LpNormalization", vector, axis=-1, p=2) if head.normalize else vector
