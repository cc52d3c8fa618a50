"""Joint models whose only weights are ONNX files, in torch, as on a GPU."""

import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

from jpr.encode.encoder_folder import weights_digest
from jpr.encode.tokenizer import read_tokenizer
from jpr.errors import ConfigError, FormatError, MissingExtraError
from jpr.io.atomic import publish_folder
from jpr.models.onnx_weights import write_for_torch
from jpr.rerank.joint import BUNDLED_MODEL, JointReranker, model_input
from jpr.rerank.onnx_scorer import OnnxScorer
from jpr.rerank.prompt import Prompts, read_prompt_settings
from jpr.rerank.save import export_joint
from jpr.rerank.torch_scorer import TorchScorer
from jpr.types import Ranking
from tests.rerank.tiny import NAMES, QUESTION, hits, ranking, write_pointer, write_t5

SAMPLE = [ranking(NAMES[i:], str(i)) for i in range(8)]
PREFIXES = [(0, ()), (0, (4,)), (0, (4, 7)), (0, (1, 0, 2))]
without_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> None:
    """Tiny matrices are multiplied faster than threads are woken."""
    torch.set_num_threads(1)


def exported(folder: Path, sample: list[Ranking], answers: bool = True) -> Path:
    with publish_folder(folder / "onnx") as made:
        export_joint(write_pointer(folder / "torch", answers=answers), made, sample)
    return folder / "onnx"


def exported_t5(folder: Path, head: str) -> Path:
    with publish_folder(folder / "onnx") as made:
        export_joint(write_t5(folder / "torch", head), made)
    return folder / "onnx"


def differences(folder: Path) -> list[float]:
    """How far torch and ONNX Runtime are apart: what comes next, and where answers are.

    There are ten candidates: so few, ONNX Runtime reads them all without rounding inputs.
    """
    prompts = Prompts(read_tokenizer(folder / "tokenizer.json"), read_prompt_settings(folder))
    asked = [model_input(prompts, 0, ranking())]
    assert len(asked[0]) == 10
    ours, theirs = (
        TorchScorer.load(folder, {}, "cpu").open(asked),
        OnnxScorer(folder, {}, 1).open(asked),
    )
    pairs = list(zip(ours.ask(PREFIXES), theirs.ask(PREFIXES), strict=True))
    assert (ours.passages is None) == (theirs.passages is None)
    if ours.passages is not None and theirs.passages is not None:
        pairs += [(ours.passages[0].spans, theirs.passages[0].spans)]
    found = []
    for one, other in pairs:
        assert np.array_equal(np.isneginf(one), np.isneginf(other))
        some = np.isfinite(one)
        found.append(float(np.abs(one[some] - other[some]).max()))
    return found


@pytest.mark.parametrize("sample", [[], SAMPLE], ids=["fp32", "int8"])
@pytest.mark.parametrize("answers", [True, False])
def test_torch_says_what_onnx_runtime_says(
    tmp_path: Path, sample: list[Ranking], answers: bool
) -> None:
    assert max(differences(exported(tmp_path, sample, answers))) < 1e-5


def test_so_it_does_of_the_model_bundled() -> None:
    assert max(differences(BUNDLED_MODEL)) < 1e-4


def test_what_was_exported_can_be_trained_further(tmp_path: Path) -> None:
    write_for_torch(exported(tmp_path, []), tmp_path / "again")
    rows = []
    for folder in (tmp_path / "torch", tmp_path / "again"):
        prompts = Prompts(read_tokenizer(folder / "tokenizer.json"), read_prompt_settings(folder))
        rows.append(
            TorchScorer.load(folder, {}, "cpu")
            .open([model_input(prompts, 0, ranking())])
            .ask(PREFIXES)
        )
    assert np.allclose(rows[0], rows[1], atol=1e-5)


def test_the_weights_go_by_the_name_of_their_files(tmp_path: Path) -> None:
    folder = exported(tmp_path, [])
    found = TorchScorer.load(folder, {}, "cpu")
    names = "encoder.onnx", "step.onnx", "spans.npz"
    assert found.key == weights_digest([folder / name for name in names])
    assert found.key == OnnxScorer(folder, {}, 1).key
    assert found.key != TorchScorer.load(tmp_path / "torch", {}, "cpu").key


@without_gpu
def test_a_gpu_that_is_not_there_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="torch sees no GPU here; use cpu or auto"):
        JointReranker.load(exported(tmp_path, []), device="cuda")


@without_gpu
def test_where_there_may_be_a_gpu_torch_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = exported(tmp_path / "bert", [])
    assert len(JointReranker.load(folder).rank(QUESTION, hits(NAMES), 3).hits) == 3  # it says no
    monkeypatch.setattr("jpr.rerank.joint.uses_gpu", lambda device: device != "cpu")
    with pytest.raises(ConfigError, match="torch sees no GPU here"):
        JointReranker.load(folder)
    JointReranker.load(folder, device="cpu")
    JointReranker.load(exported_t5(tmp_path / "t5", "index"))  # runs on the CPU alone
    monkeypatch.setattr("jpr.encode.encoder_folder.find_spec", lambda name: name == "torch")
    JointReranker.load(folder)  # without onnx, too


@pytest.mark.parametrize("head", ["pointer", "index"])
def test_a_t5_in_onnx_runs_on_the_cpu_alone(tmp_path: Path, head: str) -> None:
    with pytest.raises(FormatError, match="BERT with a pointer head"):
        TorchScorer.load(exported_t5(tmp_path, head), {}, "cpu")


@pytest.mark.parametrize("missing", ["torch", "onnx", "safetensors"])
def test_on_a_gpu_it_needs_an_extra(
    tmp_path: Path, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = exported(tmp_path, [])
    monkeypatch.setattr(
        "jpr.encode.encoder_folder.find_spec",
        lambda name: find_spec(name) if name != missing else None,
    )
    with pytest.raises(MissingExtraError, match=r"pip install 'jpr\[train\]'"):
        JointReranker.load(folder, device="cuda")
    JointReranker.load(folder, device="cpu")


def test_making_weights_for_torch_needs_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "jpr.models.onnx_weights")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'jpr\[train\]'"):
        import_module("jpr.models.onnx_weights")


def test_weights_for_torch_are_read_without_onnx(tmp_path: Path) -> None:
    code = "import sys; sys.modules['onnx'] = None; import jpr; jpr.JointReranker.load(sys.argv[1])"
    subprocess.run([sys.executable, "-c", code, str(write_pointer(tmp_path))], check=True)
