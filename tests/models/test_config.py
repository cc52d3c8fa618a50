from dataclasses import asdict, replace

import pytest

from jpr.errors import DataError
from jpr.models.config import T5Config

TINY = T5Config(100, 48, 16, 128, 2, 4, 3)
GATED = replace(TINY, feed_forward_proj="gated-gelu", tie_word_embeddings=False)


def test_a_shape_is_read_from_config_json() -> None:
    config: dict[str, object] = {"model_type": "t5", **asdict(GATED), "dropout_rate": 0.1}
    assert T5Config.from_dict(config) == GATED
    assert T5Config.from_dict(config | {"num_decoder_layers": None}).num_decoder_layers == 2


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"model_type": "bert"}, "its model_type is 'bert'"),
        ({"d_model": 0}, "d_model is 0"),
        ({"d_kv": "64"}, "d_kv is '64'"),
        ({"num_heads": True}, "num_heads is True"),
        ({"feed_forward_proj": 1}, "feed_forward_proj is 1.*relu and gated-gelu"),
        ({"tie_word_embeddings": 1}, "tie_word_embeddings is 1"),
    ],
)
def test_what_is_wrong_with_config_json(change: dict[str, object], says: str) -> None:
    with pytest.raises(DataError, match=says):
        T5Config.from_dict({"model_type": "t5", **asdict(TINY), **change})


def test_what_is_absent_from_config_json() -> None:
    with pytest.raises(DataError, match="vocab_size"):
        T5Config.from_dict({"model_type": "t5"})
