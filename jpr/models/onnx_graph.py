"""A builder of ONNX graphs: operations, norms, and matrices in float32 or int8."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy

import numpy as np
import torch
from numpy.typing import NDArray
from onnx import GraphProto, NodeProto, TensorProto, helper, numpy_helper
from torch import Tensor, nn

from jpr.errors import DataError
from jpr.models.quantize import QuantizedMatrix

MICROSOFT = "com.microsoft"  # the domain of ONNX Runtime's own operations
_MAX_BYTES = 2**31 - 2**24  # protobuf's limit, less some for the operations

Modules = Iterable[tuple[str, nn.Module]]
"""Layers by the names under which their weights are stored."""
Shape = tuple[int, Sequence[int | str]]  # the type of a tensor and its axes, variable ones by name
Outputs = dict[str, tuple[str, Shape]]  # outputs of a graph by name: the tensor, and its shape


class Graph:
    """An ONNX graph under construction."""

    def __init__(
        self, modules: Modules, quantized: Mapping[str, QuantizedMatrix] | None = None
    ) -> None:
        """Begin an empty graph in float32; with quantized layers, even none, in int8."""
        self.names = {module: name for name, module in modules}
        self._int8, self._matrices = quantized is not None, quantized or {}
        self._prefix, self._rounds_inputs = "", True
        self.nodes: list[NodeProto] = []
        self.weights: dict[str, TensorProto] = {}

    def constant(self, name: str, value: "Tensor | NDArray[np.generic] | np.generic") -> str:
        """Store a value and return its name."""
        array = value.detach().numpy() if isinstance(value, Tensor) else value
        self.weights[name] = numpy_helper.from_array(np.asarray(array, order="C"), name)
        return name

    def ints(self, *values: int) -> str:
        """Store integers, such as axes or a shape, and return their name."""
        return self.constant(f"whole.{'.'.join(map(str, values))}", np.array(values, np.int64))

    def add(self, op: str, *inputs: str, domain: str = "", **attributes: float | list[int]) -> str:
        """Add an operation and return the name of its output."""
        name = f"{self._prefix}t{len(self.nodes)}"
        node = helper.make_node(op, inputs, [name], domain=domain)
        node.attribute.extend(helper.make_attribute(k, v) for k, v in attributes.items())
        self.nodes.append(node)
        return name

    def split(self, x: str, parts: int) -> list[str]:
        """Split the last axis into equal parts."""
        names = [f"{self._prefix}t{len(self.nodes)}.{part}" for part in range(parts)]
        self.nodes.append(helper.make_node("Split", [x], names, axis=-1, num_outputs=parts))
        return names

    def embedding(self, table: Tensor) -> str:
        """Store a table and look `ids` up in it."""
        if not self._int8:
            return self.add("Gather", self.constant("words", table), "ids")
        codes, steps = _int8_rows(table.detach())
        found = self.add("Gather", self.constant("words", codes), "ids")
        values = self.add("Cast", found, to=TensorProto.FLOAT)
        step = self.add("Gather", self.constant("words.step", steps), "ids")
        return self.add("Mul", values, step)

    def matrix(self, name: str, weight: Tensor) -> str:
        """Store a matrix (out, in) and return the name of its float32 values."""
        if not self._int8:
            return self.constant(name, weight)
        codes, steps = _int8_rows(weight.detach())
        stored = self.constant(name, codes), self.constant(f"{name}.step", steps[:, 0])
        return self.add("DequantizeLinear", *stored, axis=0)

    def either(self, exact: str, build: Callable[["Graph"], Outputs]) -> Outputs:
        """Add one of two graphs that share the weights.

        Where `exact` holds, quantized layers multiply in float32; otherwise they round their inputs
        and multiply integers.
        """
        branches: dict[str, GraphProto] = {}
        outputs: Outputs = {}
        for name, prefix in (("then_branch", "exact."), ("else_branch", "rounded.")):
            branch = copy(self)
            branch.nodes, branch._prefix, branch._rounds_inputs = [], prefix, prefix == "rounded."
            outputs = build(branch)
            branches[name] = branch._closed({}, outputs)
        names = [f"either.{name}" for name in outputs]
        self.nodes.append(helper.make_node("If", [exact], names, **branches))
        return {name: (f"either.{name}", shape) for name, (_, shape) in outputs.items()}

    def _closed(self, inputs: Mapping[str, Shape], outputs: Outputs) -> GraphProto:
        """Return the graph with these inputs and outputs; a branch has no weights of its own."""
        value = helper.make_tensor_value_info
        ends = []
        for name, (tensor, shape) in outputs.items():
            end = f"{self._prefix}{name}"
            self.nodes.append(helper.make_node("Identity", [tensor], [end]))
            ends.append(value(end, *shape))
        starts = [value(name, *shape) for name, shape in inputs.items()]
        weights = [] if self._prefix else list(self.weights.values())
        return helper.make_graph(self.nodes, self._prefix or "jpr", starts, ends, weights)

    def layer_norm(self, x: str, norm: nn.LayerNorm) -> str:
        """Add a layer norm."""
        name = self.names[norm]
        weight, bias = (self.constant(f"{name}.{k}", getattr(norm, k)) for k in ("weight", "bias"))
        return self.add("LayerNormalization", x, weight, bias, axis=-1, epsilon=norm.eps)

    def rms_norm(self, x: str, norm: nn.RMSNorm) -> str:
        """Add a norm by the root mean square."""
        weight, eps = self.constant(f"{self.names[norm]}.weight", norm.weight), norm.eps or 0.0
        return self.add("SimplifiedLayerNormalization", x, weight, axis=-1, epsilon=eps)

    def linear(self, x: str, linear: nn.Linear) -> str:
        """Add a linear layer; its product is in float32, or of integers if it is quantized."""
        name, bias = self.names[linear], dict(linear.named_parameters()).get("bias")
        matrix = self._matrices.get(name)
        if matrix is None:
            product = self.add("MatMul", x, self.constant(f"{name}.weight", linear.weight.T))
        else:
            scale = matrix.scale
            if not bool((scale.smoothing == 1).all()):
                x = self.add("Mul", x, self.constant(f"{name}.smoothing", 1 / scale.smoothing))
            codes = self.constant(f"{name}.weight", matrix.codes.to(torch.int8).T)
            steps = self.constant(f"{name}.step", matrix.steps)
            if self._rounds_inputs:
                step = self.constant(f"{name}.input_step", np.float32(scale.step))
                zero = self.constant(f"{name}.input_zero", np.uint8(scale.zero))
                last = () if bias is None else ("", self.constant(f"{name}.bias", bias))
                inputs = self.add("QuantizeLinear", x, step, zero), codes, step, steps, zero, *last
                return self.add("MatMulIntegerToFloat", *inputs, domain=MICROSOFT)
            product = self.add("MatMul", x, self.add("DequantizeLinear", codes, steps, axis=1))
        if bias is None:
            return product
        return self.add("Add", product, self.constant(f"{name}.bias", bias))

    def model(
        self, inputs: Mapping[str, Shape], outputs: Outputs, about: Mapping[str, str] | None = None
    ) -> bytes:
        """Return the serialized model, with metadata `about`."""
        size = sum(weight.ByteSize() for weight in self.weights.values())
        if size > _MAX_BYTES:
            problem = f"{size / 1e9:.1f} GB of weights do not fit one ONNX file, which holds 2"
            raise DataError(f"{problem}; export in 8 bits, or run the model in torch")
        versions = [helper.make_opsetid("", 18), helper.make_opsetid(MICROSOFT, 1)]
        made = self._closed(inputs, outputs)
        model = helper.make_model(made, opset_imports=versions, producer_name="jpr")
        model.ir_version = 10
        helper.set_model_props(model, dict(about or {}))
        found: bytes = model.SerializeToString()
        return found


def _int8_rows(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return the codes of a matrix (out, in), and the step of each row (out, 1)."""
    steps = (weight.abs().amax(dim=1, keepdim=True) / 127).clamp(min=1e-12)
    return (weight / steps).round().to(torch.int8), steps
