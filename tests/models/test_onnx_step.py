from collections.abc import Callable, Sequence
from itertools import permutations

import numpy as np
import onnxruntime
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from jpr.errors import DataError
from jpr.models.bert import Bert
from jpr.models.candidates import EncodedBatch, PackedCandidates
from jpr.models.config import BertConfig, T5Config
from jpr.models.decoder_cache import PrefixScorer
from jpr.models.heads import IndexHead, PointerHead
from jpr.models.joint import JointModel
from jpr.models.onnx_export import joint_to_onnx
from jpr.models.quantize import quantize_matrices
from jpr.models.t5 import T5, T5Decoder
from tests.models.joint_models import NUMBERS, WORDS, candidates

D = 16
N = 5
PREFIXES = [(), (2,), (2, 0), (4, 3, 1), (0, 1, 2, 3)]

Floats = NDArray[np.float32]
Make = Callable[[], JointModel]


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> None:
    """Tiny matrices are multiplied faster than threads are woken."""
    torch.set_num_threads(1)


def uneven(model: JointModel) -> JointModel:
    """Weights large enough that a mistake would show."""
    torch.manual_seed(3)
    for name, weight in model.named_parameters():
        around = 1.0 if "norm" in name and name.endswith("weight") else 0.0
        torch.nn.init.normal_(weight, mean=around, std=0.3)
    return model.eval()


def pointer_over(kind: str, memory: str, answers: bool = False) -> JointModel:
    bert = Bert(BertConfig(WORDS, D, 2, 2, 32, 32, model_type=kind, pad_token_id=1))
    decoder = T5Decoder(T5Config(1, D, 4, 32, 1, 4, 2))
    return uneven(JointModel(bert, decoder, PointerHead(D), memory, answers))


def t5(head: str, gated: bool, answers: bool = False) -> JointModel:
    feed = "gated-gelu" if gated else "relu"
    made = T5(T5Config(WORDS, D, 4, 24, 2, 3, 2, 8, 6, feed_forward_proj=feed,
                       tie_word_embeddings=not gated))  # fmt: skip
    if head == "pointer":
        return uneven(JointModel(made.encoder, made.decoder, PointerHead(D), "tokens", answers))
    out = made.head.weight if gated else made.encoder.words.weight
    numbers = IndexHead(made.encoder.words, out, 0, NUMBERS)
    return uneven(JointModel(made.encoder, made.decoder, numbers, "tokens"))


MODELS: dict[str, Make] = {
    "bert, pointer, passages": lambda: pointer_over("bert", "passages"),
    "bert, pointer, tokens": lambda: pointer_over("bert", "tokens"),
    "mpnet, pointer, passages": lambda: pointer_over("mpnet", "passages"),
    "t5 v1.0, pointer": lambda: t5("pointer", gated=False),
    "t5 v1.0, index": lambda: t5("index", gated=False),
    "t5 v1.1, index": lambda: t5("index", gated=True),
    "bert, answers": lambda: pointer_over("bert", "passages", answers=True),
    "t5 v1.1, answers": lambda: t5("pointer", gated=True, answers=True),
}
every_model = pytest.mark.parametrize("make", MODELS.values(), ids=MODELS.keys())


def session(model: bytes) -> onnxruntime.InferenceSession:
    """A model as `jpr.encode.onnx_session` opens it."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.add_session_config_entry("session.disable_quant_qdq", "1")
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def encoded_by_onnx(encoder: bytes, given: PackedCandidates) -> list[Floats]:
    """The vectors of each candidate's tokens, from one padded batch; there is no other output."""
    texts = torch.split(given.ids, given.lengths.tolist())
    ids = torch.nn.utils.rnn.pad_sequence(list(texts), batch_first=True, padding_value=7).numpy()
    ran = session(encoder)
    known = {"ids": ids, "lengths": given.lengths.numpy(), "exact": np.array(False)}
    (found,) = ran.run(None, {t.name: known[t.name] for t in ran.get_inputs()})
    return [row[:n] for row, n in zip(found, given.lengths.tolist(), strict=True)]


def steps_by_onnx(
    exported: tuple[bytes, bytes], model: JointModel, given: PackedCandidates, deepest: int
) -> dict[tuple[int, ...], Floats]:
    """Log-probabilities of all prefixes of some of the candidates, one step for each depth."""
    encoder, decoder_step = exported
    rows = encoded_by_onnx(encoder, given)
    marked = np.stack([row[mark] for row, mark in zip(rows, given.marks.tolist(), strict=True)])
    step = session(decoder_step)
    known = {
        "marked": marked,
        "memory": marked if model.memory == "passages" else np.concatenate(rows),
        "numbers": given.index_ids.numpy(),
        "prior": given.prior.numpy(),
    }
    fixed = {t.name: known[t.name] for t in step.get_inputs() if t.name in known}
    shape = len(model.decoder.layers), 0, model.decoder.config.inner
    keys, values = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    places: dict[tuple[int, ...], int] = {}
    found: dict[tuple[int, ...], Floats] = {}
    for depth in range(deepest + 1):
        prefixes = list(permutations(range(N), depth))
        places |= {prefix: len(places) + at for at, prefix in enumerate(prefixes)}
        path = [[places[p[:n]] for n in range(depth + 1)] + [-1, -1] for p in prefixes]
        back = [[depth - n for n in range(depth + 1)] + [0, 0] for _ in prefixes]
        feed = {
            "last": np.array([p[-1] if p else -1 for p in prefixes]),
            "path": np.array(path),
            "back": np.array(back),
            "taken": np.array([[i in p for i in range(N)] for p in prefixes]),
            "keys": keys,
            "values": values,
        }
        log_probs, new_keys, new_values = step.run(None, {**feed, **fixed})
        keys = np.concatenate([keys, new_keys], axis=1)
        values = np.concatenate([values, new_values], axis=1)
        found |= dict(zip(prefixes, log_probs, strict=True))
    return found


def encode(model: JointModel, given: PackedCandidates) -> EncodedBatch:
    with torch.inference_mode():
        return model.encode(given)


@every_model
def test_both_give_what_torch_gives(make: Make) -> None:
    model, given = make(), candidates((N,))
    exported = joint_to_onnx(model, "some weights")
    rows = encoded_by_onnx(exported[0], given)
    with torch.no_grad():
        hidden = model.encoder.forward_packed(given.ids, given.lengths)
    np.testing.assert_allclose(np.concatenate(rows), hidden.numpy(), atol=1e-4)
    found = steps_by_onnx(exported, model, given, deepest=4)
    expected = PrefixScorer(model, encode(model, given))([(0, prefix) for prefix in PREFIXES])
    for prefix, row in zip(PREFIXES, expected, strict=True):
        np.testing.assert_allclose(found[prefix], row, atol=1e-4)


def sample(seed: int = 9) -> Sequence[Sequence[int]]:
    given = candidates((len(NUMBERS),), seed)
    return [row.tolist() for row in torch.split(given.ids, given.lengths.tolist())]


@every_model
def test_eight_bits_are_close(make: Make) -> None:
    model, given = make(), candidates((N,))
    exact = PrefixScorer(model, encode(model, given))([(0, prefix) for prefix in PREFIXES[:-1]])
    exported = joint_to_onnx(model, "some weights", sample())
    found = steps_by_onnx(exported, model, given, deepest=3)
    errors = []
    for prefix, row in zip(PREFIXES, exact, strict=False):
        seen = np.isfinite(row)
        errors.append(np.abs(np.exp(found[prefix][seen]) - np.exp(row[seen])).max())
    assert max(errors) < 0.05  # of probability; .033 was the most when this was written, .01 usual


@every_model
def test_what_is_read_again_is_rounded_less(make: Make) -> None:
    """The second way of the same matrices is nearer to torch, and there in 8 bits alone."""
    model, given = make(), candidates((N,))
    texts = torch.split(given.ids, given.lengths.tolist())
    ids = torch.nn.utils.rnn.pad_sequence(list(texts), batch_first=True).numpy()
    feed = {"ids": ids, "lengths": given.lengths.numpy()}
    encoder, _ = joint_to_onnx(model, "some weights", sample())
    ran = session(encoder)
    with torch.inference_mode():
        expected = model.encoder.forward_packed(given.ids, given.lengths).numpy()
    errors = []
    for exact in (False, True):
        found, *_ = ran.run(None, {**feed, "exact": np.array(exact)})
        rows = [row[:n] for row, n in zip(found, given.lengths.tolist(), strict=True)]
        errors.append(np.abs(np.concatenate(rows) - expected).mean())
    assert 0 < errors[1] < errors[0]


def test_eight_bits_take_a_quarter() -> None:
    torch.manual_seed(0)
    made = T5(T5Config(300, 64, 16, 128, 2, 4, 2))
    model = JointModel(made.encoder, made.decoder, PointerHead(64), "tokens").eval()
    plain, coded = joint_to_onnx(model, ""), joint_to_onnx(model, "", sample())
    parts = nn.ModuleList([model.encoder]), nn.ModuleList([model.decoder, model.head])
    for before, after, part in zip(plain, coded, parts, strict=True):
        numbers = sum(weight.numel() for weight in part.parameters())
        assert len(before) > 4 * numbers
        assert len(after) < len(before) - 2.5 * numbers


def test_matrices_are_coded_alike_whatever_fits_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    encoder = t5("pointer", gated=True).encoder
    at_once = quantize_matrices(encoder, sample())
    monkeypatch.setattr("jpr.models.quantize._VALUES_HELD", 1)
    one_by_one = quantize_matrices(encoder, sample())
    assert at_once.keys() == one_by_one.keys()
    assert len(at_once) == 2 * 4  # qkv, o, up and down of each layer
    for name, matrix in at_once.items():
        assert torch.equal(matrix.codes, one_by_one[name].codes)


def test_what_one_file_cannot_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jpr.models.onnx_graph._MAX_BYTES", 9_000)
    with pytest.raises(DataError, match=r"do not fit one ONNX file.*8 bits"):
        joint_to_onnx(t5("pointer", gated=False), "")


def test_without_a_sample_there_are_no_scales() -> None:
    with pytest.raises(DataError, match="without a sample"):
        joint_to_onnx(t5("pointer", gated=False), "", [])
