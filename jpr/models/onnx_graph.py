"""ONNX graphs in the making: operations, norms, and matrices in 32 or 8 bits."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from onnx import GraphProto, NodeProto, TensorProto, helper, numpy_helper
from torch import Tensor, nn

from jpr.errors import DataError
from jpr.models.quantize import QuantizedMatrix

OURS = "com.microsoft"
"""The domain of ONNX Runtime's own operations."""
_LARGEST_CODE = 127
_LARGEST_FILE = 2**31 - 2**24  # protobuf's limit, less some for the operations

Shape = tuple[int, Sequence[int | str]]
"""The type of a tensor and its axes, those that vary by a name."""
Outputs = Mapping[str, tuple[str, Shape]]
"""What a graph gives, by name: what some operation gave, and its shape."""


class Graph:
    """An ONNX graph in the making."""

    def __init__(self, prefix: str = "") -> None:
        """Begin with nothing; names of what operations give begin with a prefix."""
        self._prefix = prefix
        self.nodes: list[NodeProto] = []
        self.weights: dict[str, TensorProto] = {}

    def constant(self, name: str, value: "Tensor | NDArray[np.generic] | np.generic") -> str:
        """Keep a value under a name and return the name."""
        array = value.detach().numpy() if isinstance(value, Tensor) else np.asarray(value)
        self.weights[name] = numpy_helper.from_array(np.asarray(array, order="C"), name)
        return name

    def whole(self, *values: int) -> str:
        """Keep some whole numbers, such as axes or a shape, and return their name."""
        return self.constant(f"whole.{'.'.join(map(str, values))}", np.array(values, np.int64))

    def add(self, op: str, *inputs: str, domain: str = "", **attributes: float | list[int]) -> str:
        """Add an operation and return the name of what it gives."""
        name = f"{self._prefix}t{len(self.nodes)}"
        node = helper.make_node(op, inputs, [name], domain=domain)
        node.attribute.extend(helper.make_attribute(k, v) for k, v in attributes.items())
        self.nodes.append(node)
        return name

    def split(self, x: str, parts: int) -> list[str]:
        """Cut the last axis in equal parts."""
        names = [f"{self._prefix}t{len(self.nodes)}.{part}" for part in range(parts)]
        self.nodes.append(helper.make_node("Split", [x], names, axis=-1, num_outputs=parts))
        return names

    def branch(self, name: str) -> "Graph":
        """Return a graph that is computed only where it is wanted; it has the same weights."""
        found = Graph(f"{name}.")
        found.weights = self.weights
        return found

    def either(self, condition: str, branches: Sequence[tuple["Graph", Outputs]]) -> Outputs:
        """Add the first of two branches where a condition holds, otherwise the second."""
        made = [branch._closed(outputs) for branch, outputs in branches]
        names = {name: f"either.{name}" for name in branches[0][1]}
        attributes = dict(zip(("then_branch", "else_branch"), made, strict=True))
        self.nodes.append(helper.make_node("If", [condition], list(names.values()), **attributes))
        return {name: (names[name], shape) for name, (_, shape) in branches[0][1].items()}

    def _closed(self, outputs: Outputs) -> GraphProto:
        """Return a branch that gives these outputs."""
        given = {name: f"{self._prefix}{name}" for name in outputs}
        ends = [helper.make_node("Identity", [outputs[n][0]], [end]) for n, end in given.items()]
        values = [
            helper.make_tensor_value_info(given[name], *shape)
            for name, (_, shape) in outputs.items()
        ]
        return helper.make_graph([*self.nodes, *ends], self._prefix, [], values)

    def norm(self, name: str, x: str, norm: nn.LayerNorm) -> str:
        """Add a layer norm."""
        weight, bias = (self.constant(f"{name}.{k}", getattr(norm, k)) for k in ("weight", "bias"))
        return self.add("LayerNormalization", x, weight, bias, axis=-1, epsilon=norm.eps)

    def rms_norm(self, name: str, x: str, norm: nn.RMSNorm) -> str:
        """Add a norm by the root of the mean square."""
        weight = self.constant(f"{name}.weight", norm.weight)
        epsilon = norm.eps or 0.0
        return self.add("SimplifiedLayerNormalization", x, weight, axis=-1, epsilon=epsilon)

    def linear(self, name: str, x: str, linear: nn.Linear) -> str:
        """Add a linear layer in 32 bits."""
        product = self.add("MatMul", x, self.constant(f"{name}.weight", linear.weight.T))
        return _with_bias(self, name, product, linear)

    def model(
        self,
        inputs: Mapping[str, Shape],
        outputs: Outputs,
        about: Mapping[str, str] | None = None,
    ) -> bytes:
        """Return the model: outputs are what some operation gave, under names of their own."""
        size = sum(weight.ByteSize() for weight in self.weights.values())
        if size > _LARGEST_FILE:
            told = f"{size / 1e9:.1f} GB of weights do not fit one ONNX file, which holds 2"
            raise DataError(f"{told}; export in 8 bits, or run the model in torch")
        for name, (given, _) in outputs.items():
            self.nodes.append(helper.make_node("Identity", [given], [name]))
        value = helper.make_tensor_value_info
        made = helper.make_graph(
            self.nodes,
            "jpr",
            [value(name, *shape) for name, shape in inputs.items()],
            [value(name, *shape) for name, (_, shape) in outputs.items()],
            list(self.weights.values()),
        )
        versions = [helper.make_opsetid("", 18), helper.make_opsetid(OURS, 1)]
        model = helper.make_model(made, opset_imports=versions, producer_name="jpr")
        model.ir_version = 10
        helper.set_model_props(model, dict(about or {}))
        found: bytes = model.SerializeToString()
        return found


def _bias(linear: nn.Linear) -> Tensor | None:
    return linear.bias  # torch's types forget that a layer may do without


Multiply = Callable[[Graph, str, str, nn.Linear], str]
"""Adds the linear layer of this name over an input, and returns what it gives."""


def by_whole_numbers(matrices: Mapping[str, QuantizedMatrix]) -> Multiply:
    """Multiply whole numbers."""

    def multiply(graph: Graph, name: str, x: str, linear: nn.Linear) -> str:
        matrix = matrices[name]
        x, codes, steps = _smoothed(graph, name, x, matrix)
        step = graph.constant(f"{name}.input_step", np.float32(matrix.scale.step))
        zero = graph.constant(f"{name}.input_zero", np.uint8(matrix.scale.zero))
        bias = _bias(linear)
        last = () if bias is None else ("", graph.constant(f"{name}.bias", bias))
        coded = graph.add("QuantizeLinear", x, step, zero)
        return graph.add(
            "MatMulIntegerToFloat", coded, codes, step, steps, zero, *last, domain=OURS
        )

    return multiply


def by_stored_numbers(matrices: Mapping[str, QuantizedMatrix]) -> Multiply:
    """Multiply the same matrices in 32 bits, inputs not rounded; the file holds them once."""

    def multiply(graph: Graph, name: str, x: str, linear: nn.Linear) -> str:
        x, codes, steps = _smoothed(graph, name, x, matrices[name])
        product = graph.add("MatMul", x, graph.add("DequantizeLinear", codes, steps, axis=1))
        return _with_bias(graph, name, product, linear)

    return multiply


def _smoothed(graph: Graph, name: str, x: str, matrix: QuantizedMatrix) -> tuple[str, str, str]:
    """Return inputs as a matrix takes them, its whole numbers and their steps."""
    smoothing = matrix.scale.smoothing
    if not bool((smoothing == 1).all()):
        x = graph.add("Mul", x, graph.constant(f"{name}.smoothing", 1 / smoothing))
    codes = graph.constant(f"{name}.weight", matrix.codes.to(torch.int8).T)
    return x, codes, graph.constant(f"{name}.step", matrix.steps)


def _with_bias(graph: Graph, name: str, product: str, linear: nn.Linear) -> str:
    bias = _bias(linear)
    if bias is None:
        return product
    return graph.add("Add", product, graph.constant(f"{name}.bias", bias))


def words(graph: Graph, table: Tensor, ids: str) -> str:
    """Look words up in a table of 32 bits."""
    return graph.add("Gather", graph.constant("words", table), ids)


def words_in_bytes(graph: Graph, table: Tensor, ids: str) -> str:
    """Look words up in a table of 8 bits, and take each times its step."""
    codes, steps = in_bytes(table.detach())
    found = graph.add("Gather", graph.constant("words", codes), ids)
    whole = graph.add("Cast", found, to=TensorProto.FLOAT)
    return graph.add("Mul", whole, graph.add("Gather", graph.constant("words.step", steps), ids))


def in_bytes(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return a matrix (out, in) as whole numbers, and the step of each row (out, 1)."""
    steps = (weight.abs().amax(dim=1, keepdim=True) / _LARGEST_CODE).clamp(min=1e-12)
    return (weight / steps).round().to(torch.int8), steps
