import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from jpr.errors import FormatError
from jpr.models.checkpoint import read_checkpoint, write_checkpoint


def weights() -> dict[str, Tensor]:
    return {
        "a": torch.ones(4, 4),
        "b": torch.arange(6.0),
        "c": torch.tensor([3]),
        "d": torch.ones(0),
    }


def folder_of(path: Path, shard_bytes: int = 10**9) -> Path:
    write_checkpoint(path, {"model_type": "tiny"}, weights(), shard_bytes)
    return path


@pytest.mark.parametrize(("shard_bytes", "files"), [(10**9, 1), (70, 2), (1, 4)])
def test_what_is_written_is_read(tmp_path: Path, shard_bytes: int, files: int) -> None:
    config, found = read_checkpoint(folder_of(tmp_path, shard_bytes))
    assert config == {"model_type": "tiny"}
    assert found.keys() == weights().keys()
    assert all(torch.equal(found[name], weight) for name, weight in weights().items())
    assert len(list(tmp_path.glob("*.safetensors"))) == files
    assert not list(tmp_path.glob(".*"))


def test_the_last_writing_counts(tmp_path: Path) -> None:
    """Whole over shards and shards over whole."""
    for number, shard_bytes in enumerate((10**9, 70, 10**9, 1)):
        write_checkpoint(tmp_path, {}, {"a": torch.full((40,), number), "b": torch.ones(40)}, 0)
        write_checkpoint(tmp_path, {}, {**weights(), "b": torch.tensor(number)}, shard_bytes)
        assert read_checkpoint(tmp_path)[1]["b"] == number


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_weights_are_numbers(tmp_path: Path, bad: float, dtype: torch.dtype) -> None:
    spoilt = torch.ones(3, 3, dtype=dtype)
    spoilt[1, 1] = bad
    write_checkpoint(tmp_path, {}, weights() | {"block.3.weight": spoilt})
    with pytest.raises(FormatError, match=r"the weight block\.3\.weight holds NaN or infinity"):
        read_checkpoint(tmp_path)


@pytest.mark.parametrize("kept", [0, 4, 40, 100])
def test_a_file_cut_short_is_named(tmp_path: Path, kept: int) -> None:
    file = folder_of(tmp_path) / "model.safetensors"
    file.write_bytes(file.read_bytes()[:kept])
    with pytest.raises(FormatError, match=r"model\.safetensors: holds no weights \(.+\); copy it"):
        read_checkpoint(tmp_path)


@pytest.mark.parametrize("kept", [0, 4, 300, -10])
def test_an_old_file_cut_short_is_named(tmp_path: Path, kept: int) -> None:
    (tmp_path / "config.json").write_text("{}")
    file = tmp_path / "pytorch_model.bin"
    torch.save(weights(), file)
    assert read_checkpoint(tmp_path)[1].keys() == weights().keys()
    file.write_bytes(file.read_bytes()[:kept])
    with pytest.raises(FormatError, match=r"pytorch_model\.bin: holds no weights \(.+\); copy it"):
        read_checkpoint(tmp_path)


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    for value in ({"model": weights(), "step": 3}, [torch.ones(2)]):
        torch.save(value, tmp_path / "pytorch_model.bin")
        with pytest.raises(FormatError, match="something else than weights by name"):
            read_checkpoint(tmp_path)


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    folder_of(tmp_path, 1)
    (tmp_path / "model-00002-of-00004.safetensors").unlink()
    with pytest.raises(FormatError, match=r"model-00002-of-00004\.safetensors: holds no weights"):
        read_checkpoint(tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": 3}))
    with pytest.raises(FormatError, match="has no weight_map"):
        read_checkpoint(tmp_path)


def test_a_folder_without_weights_is_named(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"config\.json: cannot be read"):
        read_checkpoint(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(FormatError, match=r"neither model\.safetensors nor"):
        read_checkpoint(tmp_path)
    save_file({"a": torch.ones(1)}, tmp_path / "model.safetensors")
    assert list(read_checkpoint(tmp_path)[1]) == ["a"]


def test_shapes_come_without_numbers_and_without_torchs_compiler() -> None:
    code = """
import sys
import torch
from jpr.models.bert import Bert
from jpr.models.config import BertConfig
from jpr.models.checkpoint import shapes_only
with shapes_only():
    bert = Bert(BertConfig(30, 12, 2, 2, 20, 10))
assert {w.device.type for w in bert.parameters()} == {"meta"}
assert "torch._dynamo" not in sys.modules
assert torch.nn.init.normal_(torch.zeros(3)).abs().sum() > 0
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
