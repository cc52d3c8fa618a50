from dataclasses import replace
from pathlib import Path

import pytest
import torch

from jpr.models.heads import IndexHead
from jpr.models.joint import JointModel
from jpr.models.joint_checkpoint import read_joint, write_joint
from jpr.models.t5 import T5
from tests.models.joint_models import NUMBERS, candidates, t5_config


@pytest.mark.parametrize("tied", [True, False])
def test_a_model_that_says_numbers_is_read_as_it_was(tmp_path: Path, tied: bool) -> None:
    t5 = T5(replace(t5_config(), tie_word_embeddings=tied))
    words = t5.encoder.words
    out = words.weight if tied else t5.head.weight.detach()
    model = JointModel(t5.encoder, t5.decoder, IndexHead(words, out, 0, NUMBERS), "passages")
    write_joint(tmp_path, model, {})
    read = read_joint(tmp_path)
    given, none = candidates((4, 3)), torch.zeros(2, 0, dtype=torch.long)
    expected = model.log_probs(model.encode(given), none)
    torch.testing.assert_close(read.log_probs(read.encode(given), none), expected)
