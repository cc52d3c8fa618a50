from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from jpr.encode.encoder_folder import export_encoder, load_encoder
from jpr.errors import FormatError
from jpr.models.bert import Bert, from_hugging_face
from jpr.models.config import BertConfig
from recipes.realm_vectors import convert_realm
from tests.encode.tiny import CONFIG, ID, VOCABULARY, random_weights, write_json

REALM = {**CONFIG, "model_type": "realm", "layer_norm_eps": 1e-12, "retriever_proj_size": 8}


def write_realm(folder: Path) -> dict[str, torch.Tensor]:
    """Write a folder like google/realm-cc-news-pretrained-embedder, but tiny and random."""
    chance = torch.Generator().manual_seed(3)
    head = {
        "realm.pooler.dense.weight": (32, 32),
        "realm.pooler.dense.bias": (32,),
        "cls.dense.weight": (8, 32),
        "cls.dense.bias": (8,),
        "cls.LayerNorm.weight": (8,),
        "cls.LayerNorm.bias": (8,),
        "cls.predictions.bias": (len(VOCABULARY),),
    }
    weights = {f"realm.{name}": w for name, w in random_weights(CONFIG).items()}
    weights |= {name: torch.randn(shape, generator=chance) for name, shape in head.items()}
    write_json(folder / "config.json", REALM)
    save_file(weights, folder / "model.safetensors")
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    return weights


def test_realm_is_pooler_projection_and_norm(tmp_path: Path) -> None:
    weights = write_realm(tmp_path / "realm")
    convert_realm(tmp_path / "realm", tmp_path / "ours")
    ids = [ID[word] for word in ("[CLS]", "where", "is", "the", "castle", "[SEP]")]
    bert = Bert(BertConfig.from_dict({**CONFIG, "layer_norm_eps": 1e-12})).eval()
    plain = {name.removeprefix("realm."): w for name, w in weights.items()}
    bert.load_state_dict(from_hugging_face(plain, bert.config))
    first = bert(torch.tensor([ids]), torch.tensor([len(ids)]))[0, 0]
    pooled = torch.tanh(plain["pooler.dense.weight"] @ first + plain["pooler.dense.bias"])
    low = plain["cls.dense.weight"] @ pooled + plain["cls.dense.bias"]
    spread = (low - low.mean()) / (low.var(correction=0) + 1e-12).sqrt()
    expected = spread * plain["cls.LayerNorm.weight"] + plain["cls.LayerNorm.bias"]
    encoder = load_encoder(tmp_path / "ours")
    (found,) = encoder.encode_questions(["where is the castle"])
    np.testing.assert_allclose(found, expected.detach().numpy(), atol=1e-5)
    assert encoder.dimension == 8
    assert abs(np.linalg.norm(found) - 1) > 0.1  # no unit vector
    export_encoder(tmp_path / "ours", tmp_path / "onnx")
    (again,) = load_encoder(tmp_path / "onnx").encode_questions(["where is the castle"])
    np.testing.assert_allclose(again, found, atol=1e-5)


def test_what_is_not_realm_is_refused(tmp_path: Path) -> None:
    weights = write_realm(tmp_path / "realm")
    (tmp_path / "realm" / "vocab.txt").rename(tmp_path / "vocab.txt")
    with pytest.raises(FormatError, match=r"tokenizer\.json"):
        convert_realm(tmp_path / "realm", tmp_path / "ours")
    (tmp_path / "vocab.txt").rename(tmp_path / "realm" / "vocab.txt")
    del weights["cls.LayerNorm.bias"]
    save_file(weights, tmp_path / "realm" / "model.safetensors")
    with pytest.raises(FormatError, match=r"projection_norm\.bias"):
        convert_realm(tmp_path / "realm", tmp_path / "ours")
    assert not (tmp_path / "ours" / "encoder.json").exists()
    write_json(tmp_path / "realm" / "config.json", CONFIG)
    with pytest.raises(FormatError, match=r"config\.json: .*realm"):
        convert_realm(tmp_path / "realm", tmp_path / "ours")
