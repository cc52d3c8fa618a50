"""A joint model in two ONNX files, on the CPU: what the light installation runs.

`encoder.onnx` reads candidates, `step.onnx` says what comes after prefixes of one question; what
they take and give is in `jpr.models.onnx_export`, which makes them.

A model in 8 bits reads all candidates by whole numbers, and the likeliest few of them once more in
32 bits: rounding changes little, but enough to change which of two good passages comes first.
"""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import numpy as np
import onnxruntime

from jpr.decode import Prefix, Rows
from jpr.encode.encoder_folder import weights_digest
from jpr.encode.onnx_session import Floats, OnnxInputs, OnnxModel, one_text, open_session
from jpr.errors import DataError, FormatError
from jpr.io.checksums import checked_sums
from jpr.models.joint_config import ENCODER_FILE, EXACT_INPUT, JOINT_JSON, STEP_FILE
from jpr.rerank.evidence import Passages
from jpr.rerank.scorer import Asked, Opened

_FEW = 10
"""Candidates that a rounded model reads once more."""
_ROOM = 64
"""Prefixes that a cache has room for at first."""
_TAKEN = ["ids", "lengths"]
_TOLD = {"memory", "numbers", "weights"}
_STEP = ["last", "path", "back", "taken", "keys", "values", "memory"]


class OnnxScorer:
    """The models of a folder."""

    batch = 1  # a step is for one question, and its candidates fill the encoder's batches
    stays_open = True
    ahead = 32  # a step mostly waits for weights and memory, which all its prefixes share

    def __init__(self, folder: Path, threads: int = 0) -> None:
        """Open both, to run on so many threads; 0 is one per core."""
        paths = [folder / name for name in (ENCODER_FILE, STEP_FILE)]
        for path in paths:
            if not path.exists():
                raise FormatError(path, 0, "is missing; export the model again")
        sums = checked_sums(folder / JOINT_JSON)
        self._encoder, self._step = OnnxModel(paths[0], threads), open_session(paths[1], threads)
        encoder = self._encoder.session
        about = _about(folder, encoder, self._step)
        self.numbers = int(about["numbers"])
        self._has_tokens = about["memory"] == "tokens"
        self._wanted = {tensor.name for tensor in self._step.get_inputs()}
        outputs = {tensor.name: tensor.shape[-1] for tensor in encoder.get_outputs()}
        self._size: int = outputs["vectors"]
        self._outputs = [name for name in ("vectors", "answers") if name in outputs]
        self.reads_answers = "answers" in outputs
        self._is_rounded = EXACT_INPUT in (tensor.name for tensor in encoder.get_inputs())
        self.key = weights_digest(paths, sums)

    def open(self, asked: Sequence[Asked]) -> Opened:
        """Read the candidates of some questions, each question by itself."""
        read = [self._read(one) for one in asked]
        questions = [question for question, _ in read]

        def ask(wanted: Sequence[tuple[int, Prefix]]) -> Rows:
            found: dict[tuple[int, Prefix], Floats] = {}
            for number, question in enumerate(questions):
                own = [prefix for of, prefix in wanted if of == number]
                rows = zip(own, question(own), strict=True)
                found |= {(number, prefix): row for prefix, row in rows}
            return [found[pair] for pair in wanted]

        return Opened(ask, [passages for _, passages in read] if self.reads_answers else None)

    def _read(self, asked: Asked) -> tuple["_Question", Passages]:
        if not asked.prompted:
            raise DataError("a question has no candidates; give it at least one")
        every = range(len(asked.prompted))
        if not self._is_rounded or len(every) <= _FEW:
            read = self._encoded(asked, every, exact=True)
            return self._question(asked, read), _passages(asked, read)
        read = self._encoded(asked, every, exact=False)
        (log_probs,) = self._question(asked, read)([()])
        likely = np.argsort(-log_probs, kind="stable")[:_FEW].tolist()
        read |= self._encoded(asked, likely, exact=True)
        return self._question(asked, read), _passages(asked, read)

    def _question(self, asked: Asked, read: "_Read") -> "_Question":
        """Return the decoder over candidates that were read."""
        tokens = [read[place][0] for place in range(len(read))]
        marks = zip(tokens, asked.prompted, strict=True)
        marked = np.stack([vectors[one.mark] for vectors, one in marks])
        known: OnnxInputs = {
            "memory": np.concatenate(tokens) if self._has_tokens else marked,
            "marked": marked,
            "prior": asked.prior,
            "numbers": np.array(asked.numbers, dtype=np.int64),
        }
        fixed = {name: value for name, value in known.items() if name in self._wanted}
        return _Question(self._step, fixed, len(read))

    def _encoded(self, asked: Asked, places: Sequence[int], *, exact: bool) -> "_Read":
        """Return the vectors of some candidates' tokens (T, d), and where answers are (T, 2)."""
        how: OnnxInputs = {EXACT_INPUT: np.array(exact)} if self._is_rounded else {}
        texts = (one_text(asked.prompted[place].ids) | how for place in places)
        no_answers = np.empty((1, 0, 2), dtype=np.float32)
        return {
            place: (vectors[0], (logits or [no_answers])[0][0])
            for place, (vectors, *logits) in zip(
                places, self._encoder.read(self._outputs, texts), strict=True
            )
        }


_Read = dict[int, tuple[Floats, Floats]]
"""Of each candidate, the vectors of its tokens and logits of them to begin and to end an answer."""


def _passages(asked: Asked, read: _Read) -> Passages:
    """Return where answers may be in a question's candidates."""
    texts = [one.passage for one in asked.prompted]
    ids = np.array([token for text in texts for token in text], dtype=np.int64)
    answers = [
        _log_softmax(read[place][1][one.text : -1]) for place, one in enumerate(asked.prompted)
    ]
    return Passages(ids, np.array([len(text) for text in texts]), np.concatenate(answers))


def _log_softmax(logits: Floats) -> Floats:
    """Return log P down each column."""
    apart = logits - logits.max(axis=0, keepdims=True, initial=-np.inf)
    sums = np.exp(apart).sum(axis=0, keepdims=True)
    found: Floats = apart - np.log(np.maximum(sums, 1.0))  # the largest is 1; an empty passage's 0
    return found


def _about(folder: Path, *sessions: onnxruntime.InferenceSession) -> dict[str, str]:
    """Return what the step says of itself, after a look at whether the files belong together."""
    inputs = [[tensor.name for tensor in session.get_inputs()] for session in sessions]
    told: list[dict[str, str]] = [s.get_modelmeta().custom_metadata_map for s in sessions]
    if inputs[0][:2] != _TAKEN or inputs[1][: len(_STEP)] != _STEP or not told[1].keys() >= _TOLD:
        raise FormatError(folder, 0, "its ONNX files are no joint model of ours; use jpr export")
    if told[0] != told[1]:
        raise FormatError(
            folder, 0, f"{ENCODER_FILE} and {STEP_FILE} are of different models; export both again"
        )
    return told[1]


class _Question:
    """The decoder over one question's candidates, with the keys and values of known prefixes."""

    def __init__(self, step: onnxruntime.InferenceSession, fixed: OnnxInputs, n: int) -> None:
        self._step, self._fixed, self._n = step, fixed, n
        shapes = {tensor.name: tensor.shape for tensor in step.get_inputs()}
        layers, _, inner = shapes["keys"]
        self._cache = np.empty((2, layers, _ROOM, inner), np.float32)  # keys, and values
        self._places: dict[Prefix, int] = {}
        self._used = 0

    def __call__(self, wanted: Sequence[Prefix]) -> list[Floats]:
        """Return log P(candidate | prefix) for each prefix."""
        found: dict[Prefix, Floats] = {}
        for prefixes in self._rounds(wanted):
            found |= dict(zip(prefixes, self._run(prefixes), strict=True))
        return [found[prefix] for prefix in wanted]

    def _rounds(self, wanted: Sequence[Prefix]) -> list[list[Prefix]]:
        """Put ancestors that are not known yet first, each length a round of its own."""
        ancestors = {prefix[:length] for prefix in wanted for length in range(len(prefix))}
        needed = sorted({*wanted, *(ancestors - self._places.keys())}, key=len)
        if all(prefix[:-1] in self._places for prefix in needed if prefix):
            return [needed] if needed else []  # every parent is there: one round for all lengths
        return [list(same) for _, same in groupby(needed, key=len)]

    def _run(self, prefixes: Sequence[Prefix]) -> Floats:
        """Run a step, and remember the keys and values of its prefixes.

        It is given those of their own beginnings alone: a step takes longer the more it is given.
        """
        begun = {prefix[:length]: None for prefix in prefixes for length in range(len(prefix))}
        known = {prefix: at for at, prefix in enumerate([*begun, *prefixes])}
        path = np.full((len(prefixes), max(map(len, prefixes)) + 1), -1, dtype=np.int64)
        back = np.zeros_like(path)
        taken = np.zeros((len(prefixes), self._n), dtype=np.bool_)
        for at, prefix in enumerate(prefixes):
            lengths = range(len(prefix) + 1)
            path[at, lengths] = [known[prefix[:length]] for length in lengths]
            back[at, lengths] = lengths[::-1]
            taken[at, list(prefix)] = True
        keys, values = self._cache[:, :, [self._places[prefix] for prefix in begun]]
        given = {
            "last": np.array([prefix[-1] if prefix else -1 for prefix in prefixes]),
            "path": path,
            "back": back,
            "taken": taken,
            "keys": keys,
            "values": values,
            **self._fixed,
        }
        log_probs: Floats
        log_probs, *new = self._step.run(None, given)
        self._remember(prefixes, np.stack(new))
        return log_probs

    def _remember(self, prefixes: Sequence[Prefix], new: Floats) -> None:
        """Put keys and values of prefixes (2, layers, P, inner) into the cache."""
        first, self._used = self._used, self._used + len(prefixes)
        while self._used > self._cache.shape[2]:
            self._cache = np.concatenate([self._cache, np.empty_like(self._cache)], axis=2)
        self._cache[:, :, first : self._used] = new
        self._places |= {prefix: first + at for at, prefix in enumerate(prefixes)}
