from dataclasses import asdict, replace

import pytest

from jpr.errors import DataError
from jpr.models.config import T5Config

TINY = T5Config(100, 48, 16, 128, 2, 4, 3)
GATED = replace(TINY, feed_forward_proj="gated-gelu", tie_word_embeddings=False)


def test_a_shape_is_read_from_config_json() -> None:
    config: dict[str, object] = {"model_type": "t5", **asdict(GATED), "dropout_rate": 0.1}
    assert T5Config.of(config) == GATED
    assert T5Config.of(config | {"num_decoder_layers": None}).num_decoder_layers == 2


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"model_type": "bert"}, "its model_type is 'bert'"),
        ({"d_model": 0}, "d_model = 0; give a positive number"),
        ({"d_kv": "64"}, "d_kv = '64'; give a positive number"),
        ({"num_heads": True}, "num_heads = True; give a positive number"),
        ({"feed_forward_proj": 1}, "feed_forward_proj = 1; known are relu and gated-gelu"),
        ({"tie_word_embeddings": 1}, "tie_word_embeddings = 1; give true or false"),
    ],
)
def test_what_is_wrong_with_config_json(change: dict[str, object], says: str) -> None:
    with pytest.raises(DataError, match=says):
        T5Config.of({"model_type": "t5", **asdict(TINY), **change})


def test_what_is_absent_from_config_json() -> None:
    with pytest.raises(DataError, match="vocab_size = None; give a positive number"):
        T5Config.of({"model_type": "t5"})
