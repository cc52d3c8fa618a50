"""Folders that the program writes, with one file damaged: opened, or refused in a sentence."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jpr.encode.encoder_folder import export_encoder, load_encoder
from jpr.errors import JprError
from jpr.models.joint_checkpoint import read_joint
from jpr.rerank.joint import JointReranker
from jpr.retrieve.index import build_index
from jpr.retrieve.retrievers import open_retriever
from jpr.train.pack import Pack, write_pack
from jpr.train.recipe import read_recipe
from jpr.types import Passage, Question
from tests.damage import without_sums
from tests.rerank.tiny import write_pointer, write_t5
from tests.train.test_batch import RANKINGS, pack

from .hostile import altered, damaged, explained, fuzzing

__all__ = ["pack"]
RECIPES = Path(__file__).parents[2] / "recipes"
PASSAGES = [Passage(str(at), f"title {at}", f"text {at} of some words") for at in range(5)]


def opened_index(folder: Path) -> None:
    retriever = open_retriever(folder)
    retriever.retrieve(Question("q", "some words"), 3)


def opened_pack(folder: Path) -> None:
    made = Pack.open(folder, verify=True)
    assert len(made) == len(RANKINGS)


def opened_encoder(folder: Path) -> None:
    load_encoder(folder, device="cpu", threads=1).encode_questions(["some words"])


def opened_joint(folder: Path) -> None:
    JointReranker.load(folder, device="cpu")


OPENED: dict[str, Callable[[Path], object]] = {
    "index": opened_index,
    "pack": opened_pack,
    "pointer": opened_joint,
    "t5": read_joint,
    "encoder": opened_encoder,
    "onnx": opened_encoder,
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, pack: Pack) -> Path:
    home = tmp_path_factory.mktemp("whole")
    build_index(PASSAGES, home / "index", source="test")
    write_pack(home / "pack", pack)
    write_pointer(home / "pointer", answers=True)
    write_t5(home / "t5", "index")
    for kind in ("pointer", "t5"):  # checksums would end most tries early
        without_sums(home / kind / "joint.json")
    write_encoder(home / "encoder", home / "pointer")
    export_encoder(home / "encoder", home / "onnx")
    without_sums(home / "onnx" / "encoder.json")
    return home


def write_encoder(folder: Path, tokenizer: Path) -> None:
    """A tiny BERT as Hugging Face writes it."""
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=40,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=64,
    )
    BertModel(config).save_pretrained(folder)  # type: ignore[no-untyped-call]  # the library's
    shutil.copy(tokenizer / "tokenizer.json", folder)


@pytest.mark.parametrize("kind", OPENED)
@given(data=st.data())
@fuzzing
def test_folders(whole: Path, kind: str, data: st.DataObject) -> None:
    folder = whole.parent / f"{whole.name}-{kind}"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(whole / kind, folder)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    file = data.draw(st.sampled_from(files))
    made = damaged(file.read_bytes()) | st.binary(max_size=100)
    if file.suffix == ".json":
        value = json.loads(file.read_bytes())
        made |= altered(value).map(lambda one: json.dumps(one).encode())
    file.write_bytes(data.draw(made))
    try:
        explained(OPENED[kind], folder, named=False)
    except MemoryError:
        pytest.fail(f"{file} asks for more memory than there is")


def test_a_checkpoint_names_no_file_elsewhere(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(whole / "t5", folder)
    (folder / "model.safetensors").rename(tmp_path / "elsewhere.safetensors")
    for name in ("../elsewhere.safetensors", str(tmp_path / "elsewhere.safetensors"), "", 7, ["x"]):
        index = json.dumps({"weight_map": {"a": name}})
        (folder / "model.safetensors.index.json").write_text(index, encoding="utf-8")
        with pytest.raises(JprError, match=r"of its folder|holds no weights"):
            read_joint(folder)


@pytest.mark.parametrize("name", ["joint.toml", "joint/t5_index.toml"])
@given(data=st.data())
@fuzzing
def test_recipes(whole: Path, name: str, data: st.DataObject) -> None:
    source = (RECIPES / name).read_bytes()
    path = whole.parent / "recipe.toml"
    path.write_bytes(data.draw(damaged(source) | st.binary(max_size=100)))
    explained(read_recipe, path)
