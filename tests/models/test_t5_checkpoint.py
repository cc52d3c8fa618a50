"""T5 folders: ours read by the library, the library's read by us, and what is refused."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import BertConfig as TheirBertConfig
from transformers import T5ForConditionalGeneration

from jpr.errors import ConfigError, DataError, FormatError
from jpr.models.config import BertConfig, T5Config
from jpr.models.kernels.dispatch import check_dtype
from jpr.models.t5_checkpoint import (
    read_t5,
    t5_from_weights,
    to_hugging_face,
    write_t5,
)
from tests.models.t5_models import SHAPE, batch, close, generations, ours, theirs


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> None:
    """Tiny matrices are multiplied faster than threads are woken."""
    torch.set_num_threads(1)


@generations
@pytest.mark.parametrize("shard", [10**9, 6000])
def test_they_read_what_we_write(generation: str, shard: int, tmp_path: Path) -> None:
    model = theirs(generation)
    write_t5(tmp_path, ours(model), shard)
    assert (len(list(tmp_path.glob("*.safetensors"))) > 2) == (shard == 6000)
    again = T5ForConditionalGeneration.from_pretrained(tmp_path)
    again.eval()  # type: ignore[no-untyped-call]  # no types there
    ids, _, inside = batch()
    with torch.inference_mode():
        expected, found = (
            m(ids, attention_mask=inside.long(), decoder_input_ids=ids[:, :5]).logits
            for m in (model, again)
        )
    close(found, expected)


@generations
@pytest.mark.parametrize("shard", ["1GB", "6KB"])
def test_we_read_what_they_write(generation: str, shard: str, tmp_path: Path) -> None:
    model = theirs(generation)
    model.save_pretrained(tmp_path, max_shard_size=shard)
    assert (tmp_path / "model.safetensors").exists() == (shard == "1GB")
    found, expected = read_t5(tmp_path), ours(model)
    assert found.config == expected.config
    assert found.config.tie_word_embeddings == (generation == "v1.0")
    for name, weight in expected.state_dict().items():
        assert torch.equal(found.state_dict()[name], weight)


def test_the_weights_say_whether_the_head_is_tied() -> None:
    """Newer releases of the library write that it is tied for every T5."""
    for generation, scaled in (("v1.0", True), ("v1.1", False)):
        model = theirs(generation)
        weights = {**model.state_dict(), "lm_head.weight": torch.randn(50, 24)}
        config = {**model.config.to_dict(), "tie_word_embeddings": True}
        for kept in (config, {k: v for k, v in config.items() if k != "scale_decoder_outputs"}):
            found = t5_from_weights(kept, weights).config
            assert (found.tie_word_embeddings, found.scale_decoder_outputs) == (False, scaled)
        del weights["lm_head.weight"]
        assert t5_from_weights(config, weights).config.tie_word_embeddings
        with pytest.raises(DataError, match=r"lacks the weight 'lm_head\.weight'"):
            t5_from_weights({**config, "tie_word_embeddings": False}, weights)


@generations
def test_sixteen_bits_are_stored_and_read(generation: str, tmp_path: Path) -> None:
    half = ours(theirs(generation)).bfloat16()
    write_t5(tmp_path, half)
    assert T5ForConditionalGeneration.from_pretrained(tmp_path).dtype == torch.bfloat16
    assert read_t5(tmp_path).encoder.words.weight.dtype == torch.float32
    again = read_t5(tmp_path, torch.bfloat16).state_dict()
    assert all(torch.equal(again[name], weight) for name, weight in half.state_dict().items())
    ids, lengths, inside = batch()
    with torch.inference_mode():
        memory = half.encoder.forward_packed(ids[inside], lengths)
        assert memory.dtype == torch.bfloat16
        assert half.logits(ids[:, :4], memory, lengths).isfinite().all()


def test_float16_is_refused(tmp_path: Path) -> None:
    model = ours(theirs("v1.0"))
    ids, lengths, inside = batch()
    for dtype in (torch.bfloat16, torch.float32):
        check_dtype(dtype)
    with pytest.raises(ConfigError, match="T5 overflows in float16; run it in bfloat16"):
        read_t5(tmp_path, torch.float16)
    with torch.autocast("cpu", torch.float16), pytest.raises(ConfigError, match="overflows"):
        model.encoder.forward_packed(ids[inside], lengths)
    with pytest.raises(ConfigError, match="overflows"):
        model.half().encoder.forward_packed(ids[inside], lengths)


@generations
def test_names_go_there_and_back(generation: str) -> None:
    model = ours(theirs(generation))
    named = to_hugging_face(model.state_dict(), model.config)
    again = t5_from_weights({**asdict(model.config), "model_type": "t5"}, named).state_dict()
    assert again.keys() == model.state_dict().keys()
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, again[name])


def test_a_checkpoint_that_does_not_fit_is_refused() -> None:
    model = theirs("v1.1")
    config, weights = model.config.to_dict(), model.state_dict()
    lacking = "decoder.block.1.layer.1.EncDecAttention.v.weight"
    with pytest.raises(DataError, match=f"lacks the weight '{lacking}'"):
        t5_from_weights(config, {name: w for name, w in weights.items() if name != lacking})
    with pytest.raises(DataError, match=r"lacks the weight 'shared\.weight'; is it a T5\?"):
        t5_from_weights(config, {})
    name = "encoder.block.0.layer.0.SelfAttention.k.weight"
    with pytest.raises(DataError, match=r"q\.weight, .* has the shape \(94, 24\) instead of \(96"):
        t5_from_weights(config, {**weights, name: weights[name][2:]})
    with pytest.raises(DataError, match=r"embed_tokens\.weight differs from shared\.weight"):
        t5_from_weights(config, {**weights, "encoder.embed_tokens.weight": torch.zeros(50, 24)})
    copies = {"shared.weight", "decoder.embed_tokens.weight"}
    kept = {name: w for name, w in weights.items() if name not in copies}
    assert torch.equal(t5_from_weights(config, kept).encoder.words.weight, weights["shared.weight"])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"model_type": "bert"}, "not that of a T5: its model_type is 'bert'"),
        ({"model_type": None}, "not that of a T5: its model_type is None"),
        ({"d_ff": None}, "d_ff is None"),
        ({"num_layers": 0}, "num_layers is 0"),
        ({"num_heads": "four"}, "num_heads is 'four'"),
        ({"feed_forward_proj": "gated-silu"}, "'gated-silu'; known are relu and gated-gelu"),
    ],
)
def test_a_config_that_makes_no_sense_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        T5Config.from_dict({**SHAPE, "model_type": "t5", **wrong})


def test_another_class_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not that of a BERT"):
        BertConfig.from_dict(theirs("v1.0").config.to_dict())
    write_t5(tmp_path, ours(theirs("v1.0")))
    (tmp_path / "config.json").write_text(json.dumps(TheirBertConfig().to_dict()))
    with pytest.raises(FormatError, match=rf"{tmp_path.name}: config.json is not that of a T5"):
        read_t5(tmp_path)


def test_sizes_not_said_are_those_of_the_first_release() -> None:
    sizes = {**SHAPE, "model_type": "t5"}
    del sizes["num_decoder_layers"], sizes["decoder_start_token_id"]
    config = T5Config.from_dict({**sizes, "pad_token_id": 3})
    assert (config.num_decoder_layers, config.decoder_start_token_id) == (3, 3)
    assert config.tie_word_embeddings
    assert config.scale_decoder_outputs
    assert not config.is_gated
