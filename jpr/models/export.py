"""A tower as one ONNX file for the CPU: ids (B, T) and lengths (B,) to vectors (B, d).

In 8 bits, words and matrices are stored as whole numbers and multiplied as such; how these are
found is in `jpr.models.quantise`.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from torch import Tensor, nn

from jpr.errors import DataError
from jpr.models.bert import Bert, Block, buckets
from jpr.models.quantise import Matrix, coded_matrices
from jpr.models.tower import Tower

_OURS = "com.microsoft"


class Graph:
    """An ONNX graph in the making."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.nodes: list[NodeProto] = []
        self.weights: dict[str, TensorProto] = {}

    def constant(self, name: str, value: "Tensor | NDArray[np.generic] | np.generic") -> str:
        """Keep a value under a name and return the name."""
        array = value.detach().numpy() if isinstance(value, Tensor) else np.asarray(value)
        self.weights[name] = numpy_helper.from_array(np.asarray(array, order="C"), name)
        return name

    def add(self, op: str, *inputs: str, domain: str = "", **attributes: float | list[int]) -> str:
        """Add an operation and return the name of what it gives."""
        name = f"t{len(self.nodes)}"
        node = helper.make_node(op, inputs, [name], domain=domain)
        node.attribute.extend(helper.make_attribute(k, v) for k, v in attributes.items())
        self.nodes.append(node)
        return name

    def split(self, x: str) -> list[str]:
        """Cut the last axis in three."""
        names = [f"t{len(self.nodes)}.{part}" for part in range(3)]
        self.nodes.append(helper.make_node("Split", [x], names, axis=-1, num_outputs=3))
        return names

    def norm(self, name: str, x: str, norm: nn.LayerNorm) -> str:
        """Add a layer norm."""
        weight, bias = (self.constant(f"{name}.{k}", getattr(norm, k)) for k in ("weight", "bias"))
        return self.add("LayerNormalization", x, weight, bias, axis=-1, epsilon=norm.eps)

    def linear(self, name: str, x: str, linear: nn.Linear) -> str:
        """Add a linear layer in 32 bits."""
        product = self.add("MatMul", x, self.constant(f"{name}.weight", linear.weight.T))
        return self.add("Add", product, self.constant(f"{name}.bias", linear.bias))


Multiply = Callable[[Graph, str, str, nn.Linear], str]
"""Adds the linear layer of this name over an input, and returns what it gives."""


def to_onnx(tower: Tower) -> bytes:
    """Return a tower as an ONNX model in 32 bits."""
    graph = Graph()
    words = graph.add("Gather", graph.constant("words", tower.bert.words.weight), "ids")
    return _model(tower, graph, words, Graph.linear)


def to_onnx_int8(tower: Tower, sample: Sequence[Sequence[int]]) -> bytes:
    """Return a tower as an ONNX model in 8 bits, with scales that fit a sample of token ids."""
    if not sample:
        raise DataError("scales cannot be found without a sample of texts; give some passages")
    matrices = coded_matrices(tower.bert, sample)
    graph = Graph()
    table = tower.bert.words.weight.detach()
    steps = (table.abs().amax(dim=1, keepdim=True) / 127).clamp(min=1e-12)
    codes = graph.constant("words", (table / steps).round().to(torch.int8))
    whole = graph.add("Cast", graph.add("Gather", codes, "ids"), to=TensorProto.FLOAT)
    words = graph.add("Mul", whole, graph.add("Gather", graph.constant("words.step", steps), "ids"))

    def multiply(graph: Graph, name: str, x: str, linear: nn.Linear) -> str:
        return _whole_numbers(graph, name, x, linear.bias, matrices[name])

    return _model(tower, graph, words, multiply)


def _whole_numbers(graph: Graph, name: str, x: str, bias: Tensor, matrix: Matrix) -> str:
    """Add a linear layer in 8 bits."""
    scale = matrix.scale
    if not bool((scale.smoothing == 1).all()):
        x = graph.add("Mul", x, graph.constant(f"{name}.smoothing", 1 / scale.smoothing))
    step = graph.constant(f"{name}.input_step", np.float32(scale.step))
    zero = graph.constant(f"{name}.input_zero", np.uint8(scale.zero))
    return graph.add(
        "MatMulIntegerToFloat",
        graph.add("QuantizeLinear", x, step, zero),
        graph.constant(f"{name}.weight", matrix.codes.to(torch.int8).T),
        step,
        graph.constant(f"{name}.step", matrix.steps),
        zero,
        "",
        graph.constant(f"{name}.bias", bias),
        domain=_OURS,
    )


def _model(tower: Tower, graph: Graph, words: str, multiply: Multiply) -> bytes:
    """Put the model together, from the vectors of the words on."""
    bert = tower.bert
    axis = [graph.constant(f"axis{n}", np.array([n])) for n in (0, 1)]
    length = graph.add("Gather", graph.add("Shape", "ids"), graph.constant("one", np.int64(1)))
    place = graph.add("Range", graph.constant("zero", np.int64(0)), length, "one")
    inside = graph.add(
        "Less", graph.add("Unsqueeze", place, axis[0]), graph.add("Unsqueeze", "lengths", axis[1])
    )
    x = graph.add("Add", words, graph.add("Gather", _positions(graph, bert), place))
    x = graph.norm("norm", x, bert.norm)
    bias = _relative(graph, bert, place) if bert.is_mpnet else ""
    counts = graph.add("Cast", "lengths", to=TensorProto.INT32)
    for i, block in enumerate(bert.blocks):
        assert isinstance(block, Block)
        x = _block(graph, f"blocks.{i}", x, block, (counts, bias), multiply)
    vector = _head(graph, tower, x, inside)
    graph.nodes.append(helper.make_node("Identity", [vector], ["vectors"]))
    made: bytes = _finished(graph, tower.dimension).SerializeToString()
    return made


def _positions(graph: Graph, bert: Bert) -> str:
    if bert.is_mpnet:
        return graph.constant("positions", bert.positions.weight[bert.config.pad_token_id + 1 :])
    return graph.constant("positions", bert.positions.weight + bert.segments.weight[0])


def _relative(graph: Graph, bert: Bert, place: str) -> str:
    """Add MPNet's bias by distance (1, heads, T, T)."""
    n = bert.config.max_position_embeddings
    by_place = buckets(n, bert.config, torch.device("cpu"))
    by_distance = torch.cat([by_place[-1, :-1], by_place[0]])  # from 1-n to n-1
    table = graph.constant("relative", bert.relative.weight[by_distance])
    rows, columns = graph.add("Unsqueeze", place, "axis1"), graph.add("Unsqueeze", place, "axis0")
    distance = graph.add("Sub", columns, rows)
    first = graph.constant("nearest", np.int64(n - 1))
    found = graph.add("Gather", table, graph.add("Add", distance, first))  # (T, T, heads)
    return graph.add("Unsqueeze", graph.add("Transpose", found, perm=[2, 0, 1]), "axis0")


def _block(
    graph: Graph, name: str, x: str, block: Block, mask: tuple[str, str], multiply: Multiply
) -> str:
    """Add attention and the feed-forward layer, each with its norm."""
    q, k, v = graph.split(multiply(graph, f"{name}.qkv", x, block.qkv))
    inputs = (q, k, v, "", *mask) if mask[1] else (q, k, v, "", mask[0])
    mixed = graph.add("MultiHeadAttention", *inputs, domain=_OURS, num_heads=block.heads)
    mixed = multiply(graph, f"{name}.out", mixed, block.out)
    x = graph.norm(f"{name}.norm1", graph.add("Add", mixed, x), block.norm1)
    wide = graph.add("Gelu", multiply(graph, f"{name}.up", x, block.up), domain=_OURS)
    narrow = multiply(graph, f"{name}.down", wide, block.down)
    return graph.norm(f"{name}.norm2", graph.add("Add", narrow, x), block.norm2)


def _head(graph: Graph, tower: Tower, x: str, inside: str) -> str:
    """Add pooling (B, T, d) to (B, d), and what follows it."""
    if tower.head.pooling == "mean":
        weight = graph.add("Cast", inside, to=TensorProto.FLOAT)  # (B, T)
        count = graph.add("ReduceSum", weight, "axis1", keepdims=1)
        share = graph.add("Unsqueeze", graph.add("Div", weight, count), "axis1")  # (B, 1, T)
        vector = graph.add("Squeeze", graph.add("MatMul", share, x), "axis1")
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


def _finished(graph: Graph, dimension: int) -> ModelProto:
    value = helper.make_tensor_value_info
    made = helper.make_graph(
        graph.nodes,
        "tower",
        [value("ids", TensorProto.INT64, ["B", "T"]), value("lengths", TensorProto.INT64, ["B"])],
        [value("vectors", TensorProto.FLOAT, ["B", dimension])],
        list(graph.weights.values()),
    )
    versions = [helper.make_opsetid("", 18), helper.make_opsetid(_OURS, 1)]
    model = helper.make_model(made, opset_imports=versions, producer_name="jpr")
    model.ir_version = 10
    return model
