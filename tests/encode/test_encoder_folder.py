import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from jpr.encode.encoder_folder import BUNDLED_ENCODER, export_encoder, load_encoder
from jpr.encode.encoder_settings import EncoderSettings, read_settings, write_settings
from jpr.encode.tokenizer import EncoderTokenizer, open_tokenizer
from jpr.encode.torch_tower import TorchTower, load_tower
from jpr.errors import ConfigError, FormatError, MissingExtraError
from jpr.models.bert import Bert, from_hugging_face
from jpr.models.checkpoint import read_checkpoint
from jpr.models.config import BertConfig
from jpr.types import Passage
from tests.encode.texts import passages
from tests.encode.tiny import ID, write_encoder, write_json, write_tokenizer

QUESTIONS = ["where is the castle", "old tower?", "bridge"]


def test_a_question_is_the_mean_of_its_tokens_at_unit_length(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path)
    config, weights = read_checkpoint(folder)
    bert = Bert(BertConfig.from_dict(config)).eval()
    bert.load_state_dict(from_hugging_face(weights, bert.config))
    ids = [ID[word] for word in ("[CLS]", "where", "is", "the", "castle", "[SEP]")]
    mean = bert(torch.tensor([ids]), torch.tensor([len(ids)]))[0].mean(dim=0).detach().numpy()
    (found,) = load_encoder(folder).encode_questions(["Where is the castle"])
    np.testing.assert_allclose(found, mean / np.linalg.norm(mean), atol=1e-5)


def test_order_and_company_do_not_matter(tmp_path: Path) -> None:
    encoder = load_encoder(write_encoder(tmp_path))
    many = passages(50)
    together = encoder.encode_passages(many)
    alone = np.concatenate([encoder.encode_passages([passage]) for passage in many])
    np.testing.assert_allclose(together, alone, atol=1e-5)
    assert together.shape == (50, encoder.dimension) == (50, 32)
    assert together.dtype == np.float32
    assert encoder.encode_questions([]).shape == (0, 32)


@pytest.mark.parametrize("model_type", ["bert", "mpnet"])
def test_onnx_gives_what_torch_gives(tmp_path: Path, model_type: str) -> None:
    source = write_encoder(tmp_path / "torch", model_type=model_type)
    export_encoder(source, tmp_path / "onnx")
    there, here = load_encoder(source), load_encoder(tmp_path / "onnx")
    np.testing.assert_allclose(
        here.encode_passages(passages(30)), there.encode_passages(passages(30)), atol=1e-5
    )
    np.testing.assert_allclose(
        here.encode_questions(QUESTIONS), there.encode_questions(QUESTIONS), atol=1e-5
    )
    assert here.key == there.key  # the same weights in another form


def test_eight_bits_are_close_and_do_not_depend_on_company(tmp_path: Path) -> None:
    source = write_encoder(tmp_path / "torch")
    export_encoder(source, tmp_path / "onnx", passages(60, seed=1), QUESTIONS)
    exact, coded = load_encoder(source), load_encoder(tmp_path / "onnx", threads=1)
    many = passages(30)
    vectors = coded.encode_passages(many)
    assert (vectors * exact.encode_passages(many)).sum(axis=1).min() > 0.99
    alone = np.concatenate([coded.encode_passages([passage]) for passage in many])
    np.testing.assert_allclose(vectors, alone, atol=1e-5)


def test_two_towers(tmp_path: Path) -> None:
    for name, seed in (("question", 1), ("passage", 2)):
        write_encoder(tmp_path / "two" / name, seed)
    both = load_encoder(tmp_path / "two")
    question, passage = (load_encoder(tmp_path / "two" / name) for name in ("question", "passage"))
    np.testing.assert_array_equal(
        both.encode_questions(QUESTIONS), question.encode_questions(QUESTIONS)
    )
    np.testing.assert_array_equal(
        both.encode_passages(passages(5)), passage.encode_passages(passages(5))
    )
    export_encoder(tmp_path / "two", tmp_path / "onnx")
    np.testing.assert_allclose(
        load_encoder(tmp_path / "onnx").encode_questions(QUESTIONS),
        question.encode_questions(QUESTIONS),
        atol=1e-5,
    )


def test_towers_must_agree(tmp_path: Path) -> None:
    write_encoder(tmp_path / "question", hidden_size=16)
    write_encoder(tmp_path / "passage")
    with pytest.raises(FormatError, match="16 and 32"):
        load_encoder(tmp_path)


def test_a_layer_of_sentence_transformers_follows_pooling(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path)
    bare = load_encoder(folder).encode_questions(QUESTIONS)
    kinds = ("Transformer", "Pooling", "Dense", "Normalize")
    listed = [{"path": kind if i else "", "type": f"x.{kind}"} for i, kind in enumerate(kinds)]
    write_json(folder / "modules.json", listed)
    write_json(folder / "Pooling" / "config.json", {"pooling_mode": "mean"})
    write_json(folder / "Dense" / "config.json", {"activation_function": "torch.nn.Identity"})
    with pytest.raises(FormatError, match=r"Dense/model\.safetensors: "):
        load_encoder(folder)
    keep = torch.eye(32)[:3]  # the layer keeps the first three numbers
    weights = {"linear.weight": keep, "linear.bias": torch.zeros(3)}
    save_file(weights, folder / "Dense" / "model.safetensors")
    found = load_encoder(folder).encode_questions(QUESTIONS)
    first = bare[:, :3] / np.linalg.norm(bare[:, :3], axis=1, keepdims=True)
    np.testing.assert_allclose(found, first, atol=1e-5)


def test_dpr_is_a_bert_under_another_name(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "bert")
    config, weights = read_checkpoint(folder)
    other = tmp_path / "dpr"
    write_tokenizer_and(other, {**config, "model_type": "dpr"})
    named = {f"ctx_encoder.bert_model.{name}": w for name, w in weights.items()}
    save_file(named, other / "model.safetensors")
    found = load_encoder(other).encode_passages([Passage("1", "", "old castle")])
    settings = EncoderSettings(pooling="cls", normalise=False, max_passage_tokens=48)
    write_settings(settings, folder, [])
    expected = load_encoder(folder).encode_passages([Passage("1", "", "old castle")])
    np.testing.assert_array_equal(found, expected)


def write_tokenizer_and(folder: Path, config: dict[str, object]) -> None:
    folder.mkdir()
    write_tokenizer(folder)
    write_json(folder / "config.json", config)


def test_the_key_names_weights_and_settings(tmp_path: Path) -> None:
    first = load_encoder(write_encoder(tmp_path / "1"))
    assert first.key == load_encoder(write_encoder(tmp_path / "2")).key
    assert first.key != load_encoder(write_encoder(tmp_path / "3", seed=1)).key
    settings = EncoderSettings(question_prompt="query: ", max_passage_tokens=48)
    write_settings(settings, tmp_path / "2", [])
    assert first.key != load_encoder(tmp_path / "2").key


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="nowhere: "):
        load_encoder(tmp_path / "nowhere")
    folder = write_encoder(tmp_path)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-10])
    with pytest.raises(FormatError, match=r"model\.safetensors: "):
        load_encoder(folder)
    weights.unlink()
    with pytest.raises(FormatError, match=r"neither model\.onnx nor model\.safetensors"):
        load_encoder(folder)
    (folder / "model.onnx").write_bytes(b"no model")
    with pytest.raises(FormatError, match=r"model\.onnx: "):
        load_encoder(folder)


@pytest.mark.parametrize("damage", ["lacks", "shape"])
def test_weights_that_do_not_fit_are_named(tmp_path: Path, damage: str) -> None:
    folder = write_encoder(tmp_path)
    config, weights = read_checkpoint(folder)
    if damage == "lacks":
        del weights["encoder.layer.1.output.dense.bias"]
    else:
        write_json(folder / "config.json", {**config, "intermediate_size": 96})
    save_file(weights, folder / "model.safetensors")
    with pytest.raises(FormatError, match=damage):
        load_encoder(folder)


def test_devices(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "torch")
    with pytest.raises(ConfigError, match="tpu"):
        load_encoder(folder, "tpu")
    export_encoder(folder, tmp_path / "onnx")
    if not torch.cuda.is_available():
        for here in (folder, tmp_path / "onnx"):
            with pytest.raises(ConfigError, match="GPU"):
                load_encoder(here, "cuda")


def test_without_torch_there_is_onnx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_encoder(tmp_path / "torch")
    export_encoder(folder, tmp_path / "onnx")
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr("jpr.encode.encoder_folder.find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'jpr\[train\]'"):
        load_encoder(folder)
    for name in ("config.json", "model.safetensors"):
        (folder / name).rename(tmp_path / "onnx" / name)
    assert load_encoder(tmp_path / "onnx").encode_questions(QUESTIONS).shape == (3, 32)


@pytest.mark.skipif(BUNDLED_ENCODER.is_dir(), reason="the package has its encoder")
def test_a_missing_bundled_encoder_is_an_error() -> None:
    with pytest.raises(FormatError, match="--encoder"):
        load_encoder()


def test_the_bundled_encoder_runs_in_torch_too() -> None:
    settings = read_settings(BUNDLED_ENCODER)
    tower = TorchTower(load_tower(BUNDLED_ENCODER, settings), "cpu")
    tokenizer, file = open_tokenizer(BUNDLED_ENCODER)
    rows = EncoderTokenizer(tokenizer, settings, file).tokenize_passages(passages(20))
    cosines = (tower.vectors(rows) * load_encoder().encode_passages(passages(20))).sum(axis=1)
    assert cosines.min() > 0.98
