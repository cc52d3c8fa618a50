import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from jpr.errors import FormatError
from jpr.models.heads import SpanHead, in_passages, segment_logsumexp
from jpr.models.joint import JointModel
from jpr.models.joint_checkpoint import read_joint, write_joint
from tests.damage import without_sums
from tests.models.joint_models import (
    D,
    answers_over_bert,
    answers_over_t5,
    candidates,
    index_over_t5,
    pointer_over_bert,
)

COUNTS = (4, 3)
Make = Callable[[], JointModel]


def test_log_sums_by_hand() -> None:
    values = torch.tensor([0.0, 1.0, 1000.0, 2.0])
    found = segment_logsumexp(values, torch.tensor([0, 0, 2, 0]), 4)
    first = torch.tensor([0.0, 1.0, 2.0]).logsumexp(0)
    assert found.tolist() == pytest.approx([first.item(), -torch.inf, 1000.0, -torch.inf])


def test_passages_are_what_follows_their_beginning_but_for_the_last_token() -> None:
    row = torch.tensor([0, 0, 0, 0, 0, 1, 1, 1])
    found = in_passages(row, torch.tensor([5, 3]), torch.tensor([2, 2]))
    assert found.tolist() == [False, False, True, True, False, False, False, False]


@pytest.mark.parametrize("make", [answers_over_bert, answers_over_t5])
def test_an_answer_begins_and_ends_somewhere_in_its_passage(make: Make) -> None:
    given = candidates(COUNTS)
    with torch.inference_mode():
        found = make().encode(given).answers
    assert found is not None
    assert found.dtype == torch.float32
    row = torch.repeat_interleave(given.lengths)
    inside = in_passages(row, given.lengths, given.passage_starts)
    assert torch.isneginf(found[~inside]).all()
    assert (given.lengths == 3).any()  # one has no token of its own
    sums = torch.zeros(len(given.lengths), 2).index_add(0, row, found.exp())
    torch.testing.assert_close(sums, (given.lengths > 3).float()[:, None].expand(-1, 2))


def test_gradients_are_numbers_even_where_a_passage_is_empty() -> None:
    torch.manual_seed(0)
    answers, hidden = SpanHead(D), torch.randn(8, D, requires_grad=True)
    found = answers(hidden, torch.tensor([5, 3]), torch.tensor([2, 2]))
    found[2:4].sum().backward()
    assert hidden.grad is not None
    assert torch.isfinite(hidden.grad).all()
    assert hidden.grad[2:4].abs().min() > 0
    assert hidden.grad[[0, 1, 4, 5, 6, 7]].abs().max() == 0


@pytest.mark.parametrize("make", [answers_over_bert, pointer_over_bert, index_over_t5])
def test_folders_say_whether_a_model_reads_answers(make: Make, tmp_path: Path) -> None:
    model = make()
    write_joint(tmp_path, model, {"style": "bert"})
    again = read_joint(tmp_path)
    assert (again.answers is None) == (model.answers is None)
    for name, weight in model.state_dict().items():
        assert torch.equal(again.state_dict()[name], weight)


def test_folders_of_before_there_were_answers_are_read(tmp_path: Path) -> None:
    write_joint(tmp_path, pointer_over_bert(), {"style": "bert"})
    file = tmp_path / "joint.json"
    about = without_sums(file)
    assert about.pop("answers") is False
    file.write_text(json.dumps(about))
    assert read_joint(tmp_path).answers is None
    file.write_text(json.dumps({**about, "answers": "many"}))
    with pytest.raises(FormatError, match="answers is 'many'"):
        read_joint(tmp_path)
