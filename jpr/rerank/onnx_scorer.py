"""A joint model in two ONNX files, on the CPU: what the light installation runs.

`encoder.onnx` encodes candidates, `step.onnx` scores the successors of prefixes of one question;
`jpr.models.onnx_export`, which makes them, documents their inputs and outputs.

An 8-bit model encodes all candidates in integers, and the most likely ones again in 32 bits:
rounding changes little, but enough to change which of two good passages comes first.

A model that reads answers has a third file, `spans.npz`: its span head, which is numpy.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnxruntime

from jpr.decode.search import Rows
from jpr.encode.encoder_folder import weights_digest
from jpr.encode.onnx_session import Floats, OnnxInputs, OnnxModel, one_text, open_session
from jpr.errors import FormatError
from jpr.io.checksums import check_sums
from jpr.models.joint_config import (
    ENCODER_FILE,
    EXACT_INPUT,
    SPANS_FILE,
    STEP_FILE,
    exported_files,
)
from jpr.models.span_weights import SpanWeights
from jpr.rerank.evidence import PassageTokens
from jpr.rerank.scorer import ModelInput, Opened, rank_prior
from jpr.rerank.span_logits import span_logits
from jpr.types import Prefix

EXACT_CANDIDATES = 10  # candidates that an 8-bit model encodes again in 32 bits
_ENCODER_INPUTS = ["ids", "lengths"]
_METADATA = {"memory", "numbers", "weights"}
_STEP_INPUTS = ["last", "path", "back", "taken", "keys", "values", "memory"]


class OnnxScorer:
    """The models of a folder."""

    batch = 1  # a step is for one question, and its candidates fill the encoder's batches
    stays_open = True
    ahead = 32  # a step mostly waits for weights and memory, which all its prefixes share

    def __init__(self, folder: Path, sums: Mapping[Path, str], threads: int = 0) -> None:
        """Open both after a check of their hashes; 0 threads is one per core."""
        paths = [folder / name for name in (ENCODER_FILE, STEP_FILE)]
        for path in paths:
            if not path.exists():
                raise FormatError(path, 0, "is missing; export the model again")
        check_sums(sums)
        self._encoder, self._step = OnnxModel(paths[0], threads), open_session(paths[1], threads)
        encoder = self._encoder.session
        about = _about(folder, encoder, self._step)
        self.index_tokens = int(about["numbers"])
        self._has_tokens = about["memory"] == "tokens"
        self._step_inputs = {tensor.name for tensor in self._step.get_inputs()}
        self._spans = _span_weights(folder / SPANS_FILE, encoder)
        self.reads_answers = self._spans is not None
        self._is_quantized = EXACT_INPUT in (tensor.name for tensor in encoder.get_inputs())
        self.key = weights_digest(exported_files(folder), sums)

    def open(self, inputs: Sequence[ModelInput]) -> Opened:
        """Encode the candidates of some questions, one question after another."""
        read = [self._read(one) for one in inputs]

        def ask(pairs: Sequence[tuple[int, Prefix]]) -> Rows:
            rows = [
                question([prefix for of, prefix in pairs if of == number])
                for number, (question, _) in enumerate(read)
            ]
            return [rows[number][prefix] for number, prefix in pairs]

        passages = [found for _, found in read if found is not None]
        return Opened(ask, passages if self.reads_answers else None)

    def _read(self, given: ModelInput) -> tuple["_Question", PassageTokens | None]:
        every = range(len(given))
        exact = not self._is_quantized or len(every) <= EXACT_CANDIDATES
        encoded = self._encoded(given, every, exact=exact)
        if not exact:
            log_probs = self._question(given, encoded)([()])[()]
            likely = np.argsort(-log_probs, kind="stable")[:EXACT_CANDIDATES].tolist()
            encoded |= self._encoded(given, likely, exact=True)
        passages = None if self._spans is None else _passages(given, encoded, self._spans)
        return self._question(given, encoded), passages

    def _question(self, given: ModelInput, encoded: "_Encoded") -> "_Question":
        tokens = [encoded[place] for place in range(len(given))]
        marked = np.stack([vectors[one.mark] for vectors, one in zip(tokens, given, strict=True)])
        known: OnnxInputs = {
            "memory": np.concatenate(tokens) if self._has_tokens else marked,
            "marked": marked,
            "prior": rank_prior(given),
            "numbers": np.array([one.number for one in given], dtype=np.int64),
        }
        fixed = {name: value for name, value in known.items() if name in self._step_inputs}
        return _Question(self._step, fixed, len(tokens))

    def _encoded(self, given: ModelInput, places: Sequence[int], *, exact: bool) -> "_Encoded":
        how: OnnxInputs = {EXACT_INPUT: np.array(exact)} if self._is_quantized else {}
        texts = (one_text(given[place].ids) | how for place in places)
        outputs = zip(places, self._encoder.read(["vectors"], texts), strict=True)
        return {place: vectors[0] for place, (vectors,) in outputs}


_Encoded = dict[int, Floats]
"""By candidate: its tokens' vectors (T, d)."""


def _span_weights(file: Path, encoder: onnxruntime.InferenceSession) -> SpanWeights | None:
    """Read the span head of a model that reads answers."""
    vectors, *others = encoder.get_outputs()  # jpr 0.1 had its span head in the encoder
    return SpanWeights.read(file, vectors.shape[-1]) if others or file.exists() else None


def _passages(given: ModelInput, encoded: _Encoded, spans: SpanWeights) -> PassageTokens:
    """Return the tokens of a question's passages, with the logits of their spans."""
    ids = np.array([token for one in given for token in one.passage], dtype=np.int64)
    lengths = np.array([len(one.passage) for one in given], dtype=np.int64)
    vectors = [encoded[place][one.text : -1] for place, one in enumerate(given)]
    projected = np.concatenate(vectors) @ spans.project
    return PassageTokens(ids, lengths, span_logits(projected, spans.bias, spans.lengths, lengths))


def _about(folder: Path, *sessions: onnxruntime.InferenceSession) -> dict[str, str]:
    """Return the metadata of the step, after a check that the files belong together."""
    of_encoder, of_step = ([tensor.name for tensor in session.get_inputs()] for session in sessions)
    metadata: list[dict[str, str]] = [s.get_modelmeta().custom_metadata_map for s in sessions]
    are_joint = of_encoder[:2] == _ENCODER_INPUTS and of_step[: len(_STEP_INPUTS)] == _STEP_INPUTS
    if not are_joint or not metadata[1].keys() >= _METADATA:
        problem = "its ONNX files are not a joint model; make them with jpr export"
        raise FormatError(folder, 0, problem)
    if metadata[0] != metadata[1]:
        problem = f"{ENCODER_FILE} and {STEP_FILE} belong to different models; export both again"
        raise FormatError(folder, 0, problem)
    return metadata[1]


class _Question:
    """The decoder over one question's candidates, with the keys and values of known prefixes."""

    def __init__(self, step: onnxruntime.InferenceSession, fixed: OnnxInputs, n: int) -> None:
        self._step, self._fixed, self._n = step, fixed, n
        shapes = {tensor.name: tensor.shape for tensor in step.get_inputs()}
        layers, _, inner = shapes["keys"]
        self._nothing = np.empty((2, layers, 0, inner), np.float32)
        self._known: dict[Prefix, Floats] = {}  # keys and values, (2, layers, 1, inner)

    def __call__(self, needed: Sequence[Prefix]) -> dict[Prefix, Floats]:
        """Return log P(candidate | prefix) for these prefixes, and for ancestors not yet known."""
        parents = dict.fromkeys(prefix[:-1] for prefix in needed if prefix)
        new = [parent for parent in parents if parent not in self._known]
        found = self(new) if new else {}
        rest = dict.fromkeys(prefix for prefix in needed if prefix not in found)
        return found | self._run(list(rest)) if rest else found

    def _run(self, prefixes: Sequence[Prefix]) -> dict[Prefix, Floats]:
        """Run a step, and keep the keys and values of its prefixes.

        Its input holds those of their ancestors alone: a step takes longer with a larger cache.
        """
        begun = {prefix[:length]: None for prefix in prefixes for length in range(len(prefix))}
        places = {prefix: at for at, prefix in enumerate([*begun, *prefixes])}
        path = np.full((len(prefixes), max(map(len, prefixes)) + 1), -1, dtype=np.int64)
        back = np.zeros_like(path)
        taken = np.zeros((len(prefixes), self._n), dtype=np.bool_)
        for at, prefix in enumerate(prefixes):
            lengths = range(len(prefix) + 1)
            path[at, lengths] = [places[prefix[:length]] for length in lengths]
            back[at, lengths] = lengths[::-1]
            taken[at, list(prefix)] = True
        last = np.array([prefix[-1] if prefix else -1 for prefix in prefixes])
        own = [self._nothing, *(self._known[prefix] for prefix in begun)]
        keys, values = np.concatenate(own, axis=2)
        given = {"last": last, "path": path, "back": back, "taken": taken}
        given |= {"keys": keys, "values": values, **self._fixed}
        log_probs, *new = self._step.run(None, given)
        each = np.split(np.stack(new), len(prefixes), axis=2)
        self._known |= zip(prefixes, each, strict=True)
        return dict(zip(prefixes, log_probs, strict=True))
