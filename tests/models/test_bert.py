"""Parity of our BERT and MPNet with the library's, on tiny random weights."""

from typing import Any

import pytest
import torch
from transformers import BertConfig as TheirBertConfig
from transformers import BertModel, MPNetConfig, MPNetModel, PreTrainedModel

from jpr.errors import DataError
from jpr.models.bert import Bert, from_hugging_face, to_hugging_face
from jpr.models.config import BertConfig

SHAPE: dict[str, Any] = {
    "vocab_size": 50,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "max_position_embeddings": 40,
}
LENGTHS = [9, 1, 30]


def theirs(kind: str) -> PreTrainedModel:
    torch.manual_seed(5)
    config = TheirBertConfig(**SHAPE) if kind == "bert" else MPNetConfig(**SHAPE)
    kinds = {"bert": BertModel, "mpnet": MPNetModel}
    model: PreTrainedModel = kinds[kind](config)  # type: ignore[no-untyped-call]  # no types there
    for weight in model.parameters():  # their own start is too even to show a mistake
        torch.nn.init.normal_(weight, std=0.3)
    model.eval()  # type: ignore[no-untyped-call]  # nor there
    return model


def ours(model: PreTrainedModel) -> Bert:
    bert = Bert(BertConfig.from_dict(model.config.to_dict())).eval()
    bert.load_state_dict(from_hugging_face(model.state_dict(), bert.config))
    return bert


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    chance = torch.Generator().manual_seed(1)
    lengths = torch.tensor(LENGTHS)
    ids = torch.randint(5, 50, (len(LENGTHS), max(LENGTHS)), generator=chance)
    return ids, lengths


@pytest.mark.parametrize("kind", ["bert", "mpnet"])
def test_ours_gives_what_theirs_gives(kind: str) -> None:
    model = theirs(kind)
    ids, lengths = batch()
    inside = torch.arange(ids.shape[1])[None] < lengths[:, None]
    padding = model.config.pad_token_id
    padded = ids.masked_fill(~inside, padding)
    with torch.inference_mode():
        expected = model(padded, attention_mask=inside.long()).last_hidden_state[inside]
        found = ours(model)(padded, lengths)[inside]
    torch.testing.assert_close(found, expected, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", ["bert", "mpnet"])
def test_rows_end_to_end_give_what_padded_rows_give(kind: str) -> None:
    bert = ours(theirs(kind))
    ids, lengths = batch()
    inside = torch.arange(ids.shape[1])[None] < lengths[:, None]
    with torch.inference_mode():
        padded = bert(ids, lengths)[inside]
        packed = bert.forward_packed(ids[inside], lengths)
    torch.testing.assert_close(packed, padded, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", ["bert", "mpnet"])
def test_names_go_there_and_back(kind: str) -> None:
    bert = ours(theirs(kind))
    again = from_hugging_face(to_hugging_face(bert.state_dict(), bert.config), bert.config)
    assert again.keys() == bert.state_dict().keys()
    for name, weight in bert.state_dict().items():
        assert torch.equal(weight, again[name])


def test_a_missing_weight_is_named() -> None:
    model = theirs("bert")
    weights = dict(model.state_dict())
    del weights["embeddings.LayerNorm.bias"]
    with pytest.raises(DataError, match=r"lacks the weight 'embeddings\.LayerNorm\.bias'"):
        from_hugging_face(weights, BertConfig.from_dict(model.config.to_dict()))
    with pytest.raises(DataError, match="not that of a BERT or MPNet"):
        BertConfig.from_dict({"vocab_size": 3})
