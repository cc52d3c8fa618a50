"""Joint models that went to ONNX and back."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from jpr.errors import FormatError, JprError
from jpr.models.bert import Bert
from jpr.models.config import BertConfig, T5Config
from jpr.models.heads import PointerHead
from jpr.models.joint import JointModel
from jpr.models.joint_checkpoint import write_joint
from jpr.models.onnx_export import joint_to_onnx, span_weights
from jpr.models.onnx_weights import joint_from_onnx
from jpr.models.t5 import T5Decoder
from tests.damage import damaged, without_sums
from tests.models.joint_models import WORDS, D, candidates, index_over_t5, pointer_over_t5

UNUSED = 5
"""The bucket of eight that no distance falls in where the farthest is 6: 4, 5 and 6 are far."""


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> None:
    """Tiny matrices are multiplied faster than threads are woken."""
    torch.set_num_threads(1)


def pointer(kind: str = "bert", memory: str = "passages", seed: int = 0) -> JointModel:
    """A model that reads answers, with weights large enough that a mistake would show."""
    torch.manual_seed(seed)
    bert = Bert(BertConfig(WORDS, D, 2, 2, 32, 32, model_type=kind))
    decoder = T5Decoder(T5Config(1, D, 8, 24, 1, 2, 2, 8, 6))
    model = JointModel(bert, decoder, PointerHead(D), memory, answers=True)
    for name, weight in model.named_parameters():
        around = 1.0 if "norm" in name and name.endswith("weight") else 0.0
        torch.nn.init.normal_(weight, mean=around, std=0.3)
    return model.eval()


def written(folder: Path, model: JointModel, exported: tuple[bytes, bytes] | None = None) -> Path:
    """A folder with ONNX files alone, in 32 bits if nothing else is given."""
    encoder, step = exported or joint_to_onnx(model, str(model.encoder.words.weight[0, 0].item()))
    write_joint(folder, model, {})
    without_sums(folder / "joint.json")
    (folder / "model.safetensors").unlink()
    (folder / "encoder.onnx").write_bytes(encoder)
    (folder / "step.onnx").write_bytes(step)
    if model.answers is not None:
        span_weights(model.answers).write(folder / "spans.npz")
    return folder


@torch.inference_mode()
def said(model: JointModel) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities of what comes next, farther back than the farthest bucket, and of answers.

    Where there is no candidate or no passage they are −∞, here one and the same large number.
    """
    encoded = model.encode(candidates((9, 8)))
    assert encoded.answers is not None
    prefixes = torch.tensor([[3, 0, 5, 1, 2, 7, 4, 6], [7, 2, 1, 0, 3, 4, 5, 6]])
    log_probs = model.log_probs(encoded, prefixes)[:, :8]
    return log_probs.clamp(min=-1e4), encoded.answers.sigmoid().log().clamp(min=-1e4)


@pytest.mark.parametrize("memory", ["passages", "tokens"])
def test_in_32_bits_all_weights_come_back(tmp_path: Path, memory: str) -> None:
    model = pointer(memory=memory)
    read = joint_from_onnx(written(tmp_path, model))
    assert read.memory == memory
    assert not read.training
    for found, expected in zip(said(read), said(model), strict=True):
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    reference = {name: weight.clone() for name, weight in model.state_dict().items()}
    segments = reference["encoder.segments.weight"]
    reference["encoder.positions.weight"] += segments[0]  # added to every token all the same
    segments.zero_()
    reference["decoder.relative.weight"][UNUSED] = 0
    torch.testing.assert_close(dict(read.state_dict()), reference, atol=1e-6, rtol=0)


def test_in_8_bits_weights_are_near(tmp_path: Path) -> None:
    model, given = pointer(), candidates((20,), seed=9)
    sample = [row.tolist() for row in torch.split(given.ids, given.lengths.tolist())]
    read = joint_from_onnx(written(tmp_path, model, joint_to_onnx(model, "", sample)))
    named = read.state_dict()
    for name, weight in model.decoder.state_dict().items():  # rounded to 127 steps, not scaled
        if name != "relative.weight":
            assert (named[f"decoder.{name}"] - weight).abs().max() <= weight.abs().max() / 250
    for found, expected in zip(said(read), said(model), strict=True):
        assert (found.exp() - expected.exp()).abs().max() < 0.05  # .033 when this was written


OTHERS: dict[str, Callable[[], JointModel]] = {
    "t5, pointer": pointer_over_t5,
    "t5, index": index_over_t5,
    "mpnet, pointer": lambda: pointer("mpnet"),
}


@pytest.mark.parametrize("make", OTHERS.values(), ids=OTHERS)
def test_other_models_only_run_on_the_cpu(tmp_path: Path, make: Callable[[], JointModel]) -> None:
    with pytest.raises(FormatError, match=r"BERT with a pointer head.*cpu"):
        joint_from_onnx(written(tmp_path, make()))


def test_damaged_and_foreign_files_are_refused(tmp_path: Path) -> None:
    folder = written(tmp_path / "one", pointer())
    other = written(tmp_path / "other", pointer(seed=1))
    encoder, step = folder / "encoder.onnx", folder / "step.onnx"
    for file in (encoder, step):
        kept = file.read_bytes()
        for size in (0, 10, len(kept) // 2, len(kept) - 1):
            file.write_bytes(kept[:size])
            with pytest.raises(FormatError, match="export"):
                joint_from_onnx(folder)
        file.write_bytes(kept)
    whole = step.read_bytes()
    step.write_bytes((other / "step.onnx").read_bytes())
    with pytest.raises(FormatError, match="of different models; export both again"):
        joint_from_onnx(folder)
    step.write_bytes(encoder.read_bytes())
    with pytest.raises(FormatError, match=r"is damaged"):
        joint_from_onnx(folder)
    step.unlink()
    with pytest.raises(FormatError, match=r"step\.onnx: is missing; export"):
        joint_from_onnx(folder)
    step.write_bytes(whole)
    joint_from_onnx(folder)
    (folder / "spans.npz").unlink()  # as in the folders of jpr 0.1
    with pytest.raises(FormatError, match=r"spans\.npz: is missing.* jpr 0\.1"):
        joint_from_onnx(folder)


def test_whatever_is_wrong_with_the_description_is_reported(tmp_path: Path) -> None:
    folder = written(tmp_path, pointer())
    file = folder / "joint.json"
    about = json.loads(file.read_text())
    for bad in damaged({name: about[name] for name in ("encoder", "head", "answers")}):
        file.write_text(json.dumps({**about, **bad} if isinstance(bad, dict) else bad))
        try:
            joint_from_onnx(folder)
        except JprError as error:
            assert str(folder) in str(error)  # noqa: PT017  some damage is no matter
    shape = {**about["encoder_config"], "hidden_size": 2 * D}
    for bad in ({"encoder_config": shape}, {"decoder_config": {}}, {"memory": "none"}):
        file.write_text(json.dumps({**about, **bad}))
        with pytest.raises(FormatError, match="is damaged"):
            joint_from_onnx(folder)
