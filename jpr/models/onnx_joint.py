"""A joint model as two ONNX models for the CPU, an encoder and one step of the decoder.

    encoder   ids (B, T), lengths (B,) → vectors (B, T, d) of the tokens; of a model that reads
              answers, also logits (B, T, 2) of each to begin and to end one
    step      P prefixes of one question → log_probs (P, C), new_keys and new_values (layers, P, …)

The step takes, of each prefix, its `last` passage (-1 for none), where it and its ancestors are in
the caches, those of this step at their end (`path` (P, D), -1 for none), how far `back` each is,
and which candidates are `taken`; the caches `keys` and `values` (layers, N, heads · d_kv); of the
question, its `memory` (M, d), and what the head needs of the candidates: `marked` (C, d) and
`prior` (C,), or `numbers` (C,). As in `jpr.models.decoder_cache`, the query is taken to the
memory, and a pointer's query to the candidates, so that nothing is computed for each of them but
products.

In 8 bits the encoder multiplies whole numbers, or, where it is told to be `exact` (a flag),
the same matrices in 32 bits, for the few candidates that matter. The decoder and the head only
store 8 bits and multiply 32.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from onnx import TensorProto
from torch import Tensor

from jpr.models.bert import Bert
from jpr.models.joint import IndexHead, JointModel, PointerHead
from jpr.models.joint_config import EXACT_INPUT
from jpr.models.onnx_export import TOKENS, bert_vectors, places
from jpr.models.onnx_graph import (
    Graph,
    Multiply,
    Shape,
    by_stored_numbers,
    by_whole_numbers,
    words,
    words_in_bytes,
)
from jpr.models.onnx_t5 import DecoderStep, Keep, keep_bytes, keep_numbers, t5_vectors
from jpr.models.quantize import quantize_matrices


@dataclass(frozen=True, slots=True)
class JointOnnx:
    """The two models, as the files hold them."""

    encoder: bytes
    step: bytes


def joint_to_onnx(model: JointModel, weights: str) -> JointOnnx:
    """Return a model in 32 bits; both files will tell the name of the weights they are of."""
    about = _about(model, weights)
    graph = Graph()
    found = words(graph, model.encoder.words.weight, "ids")
    outputs = _encoder(graph, model, found, places(graph), Graph.linear)
    return JointOnnx(graph.model(TOKENS, outputs, about), _step(model, keep_numbers, about))


def joint_to_onnx_int8(
    model: JointModel, weights: str, sample: Sequence[Sequence[int]]
) -> JointOnnx:
    """Return a model in 8 bits, with scales that fit a sample of token ids."""
    about = _about(model, weights)
    matrices = quantize_matrices(model.encoder, sample)
    graph = Graph()
    found, place = words_in_bytes(graph, model.encoder.words.weight, "ids"), places(graph)
    ways = {"exact": by_stored_numbers(matrices), "rounded": by_whole_numbers(matrices)}
    branches = [
        (branch, _encoder(branch, model, found, place, multiply))
        for branch, multiply in ((graph.branch(name), way) for name, way in ways.items())
    ]
    inputs = {**TOKENS, EXACT_INPUT: (TensorProto.BOOL, [])}
    encoder = graph.model(inputs, graph.either(EXACT_INPUT, branches), about)
    return JointOnnx(encoder, _step(model, keep_bytes, about))


def _about(model: JointModel, weights: str) -> dict[str, str]:
    """Return what who runs the model has to know of it."""
    numbers = len(model.head.tokens) if isinstance(model.head, IndexHead) else 0
    return {"memory": model.memory, "numbers": str(numbers), "weights": weights}


def _encoder(
    graph: Graph, model: JointModel, found: str, place: str, multiply: Multiply
) -> dict[str, tuple[str, Shape]]:
    """Add the encoder, from vectors of words on; return what it gives."""
    encoder = model.encoder
    if isinstance(encoder, Bert):
        x, d = bert_vectors(graph, encoder, found, place, multiply), encoder.config.hidden_size
    else:
        x, d = t5_vectors(graph, encoder, found, place, multiply), encoder.config.d_model
    outputs: dict[str, tuple[str, Shape]] = {"vectors": (x, (TensorProto.FLOAT, ["B", "T", d]))}
    if model.answers is not None:
        logits = graph.linear("answers", x, model.answers.ends)
        outputs["answers"] = logits, (TensorProto.FLOAT, ["B", "T", 2])
    return outputs


def _step(model: JointModel, keep: Keep, about: Mapping[str, str]) -> bytes:
    """Put a step of the decoder together."""
    config = model.decoder.config
    layers, inner, d = len(model.decoder.layers), config.inner, config.d_model
    graph = Graph()
    if isinstance(model.head, PointerHead):
        head: _Pointer | _Index = _Pointer(graph, model.head, keep)
    else:
        head = _Index(graph, model.head, keep)
    decoder = DecoderStep(graph, keep, config.num_heads)
    bias = decoder.bias(model.decoder)
    x = head.last()
    caches = []
    for i, block in enumerate(model.decoder.layers):
        x, cache = decoder.block(i, x, block, bias)
        caches.append(cache)
    hidden = graph.rms_norm("norm", x, model.decoder.norm)
    least = graph.constant("least", np.float32(-np.inf))
    open_ones = graph.add("Where", "taken", least, head.logits(hidden))
    new = [graph.add("Concat", *part, axis=0) for part in zip(*caches, strict=True)]
    float32, int64 = TensorProto.FLOAT, TensorProto.INT64
    cache_shape: Shape = (float32, [layers, "N", inner])
    inputs: dict[str, Shape] = {
        "last": (int64, ["P"]),
        "path": (int64, ["P", "D"]),
        "back": (int64, ["P", "D"]),
        "taken": (TensorProto.BOOL, ["P", "C"]),
        "keys": cache_shape,
        "values": cache_shape,
        "memory": (float32, ["M", d]),
        **head.needs,
    }
    outputs: dict[str, tuple[str, Shape]] = {
        "log_probs": (graph.add("LogSoftmax", open_ones, axis=-1), (float32, ["P", "C"])),
        "new_keys": (new[0], (float32, [layers, "P", inner])),
        "new_values": (new[1], (float32, [layers, "P", inner])),
    }
    return graph.model(inputs, outputs, about)


class _Pointer:
    """The pointer's ends of a step: what goes in and what comes out."""

    def __init__(self, graph: Graph, head: PointerHead, keep: Keep) -> None:
        self._graph, self._head = graph, head
        self._query, self._key, self._chosen = (
            keep(graph, f"head.{name}", getattr(head, name).weight)
            for name in ("query", "key", "chosen")
        )
        d = head.start.shape[0]
        self.needs: dict[str, Shape] = {
            "marked": (TensorProto.FLOAT, ["C", d]),
            "prior": (TensorProto.FLOAT, ["C"]),
        }

    def last(self) -> str:
        """Add the decoder's inputs (P, d)."""
        graph = self._graph
        key = graph.add("Gemm", graph.add("Gather", "marked", "last"), self._key, transB=1)
        return _or_start(
            graph, graph.add("Gemm", key, self._chosen, transB=1), self._head.start_input()
        )

    def logits(self, hidden: str) -> str:
        """Add a number for each candidate (P, C)."""
        graph, head = self._graph, self._head
        asked = graph.add("Gemm", hidden, self._query, transB=1)
        asked = graph.add("MatMul", asked, self._key)
        agreement = graph.add("Gemm", asked, "marked", transB=1, alpha=head.scale)
        prior = graph.add("Mul", "prior", graph.constant("head.prior", head.prior))
        return graph.add("Add", agreement, prior)


class _Index:
    """The same for numbers that are words; of a T5's words only these are kept."""

    def __init__(self, graph: Graph, head: IndexHead, keep: Keep) -> None:
        self._graph, self._head = graph, head
        spoken = head.words.weight if head.out is None else head.out
        self._scale = spoken.shape[1] ** -0.5 if head.out is None else 1.0
        self._heard = keep(graph, "head.words", head.words.weight[head.tokens])
        self._spoken = keep(graph, "head.out", spoken[head.tokens])
        self.needs: dict[str, Shape] = {"numbers": (TensorProto.INT64, ["C"])}

    def last(self) -> str:
        """Add the decoder's inputs (P, d)."""
        graph = self._graph
        number = graph.add("Gather", "numbers", "last")
        return _or_start(graph, graph.add("Gather", self._heard, number), self._head.start_input())

    def logits(self, hidden: str) -> str:
        """Add a number for each candidate (P, C)."""
        rows = self._graph.add("Gather", self._spoken, "numbers")
        return self._graph.add("Gemm", hidden, rows, transB=1, alpha=self._scale)


def _or_start(graph: Graph, chosen: str, start: Tensor) -> str:
    """Take the start where no passage was chosen yet."""
    some = graph.add("GreaterOrEqual", "last", graph.constant("none", np.int64(0)))
    given = graph.add("Unsqueeze", some, graph.whole(1))
    return graph.add("Where", given, chosen, graph.constant("head.start", start))
