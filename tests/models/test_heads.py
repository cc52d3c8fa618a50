import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from jpr.errors import FormatError
from jpr.models.checkpoint import read_checkpoint, write_checkpoint
from jpr.models.heads import SpanHead, tokens_left
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


def test_passages_are_what_follows_their_beginning_but_for_the_last_token() -> None:
    row = torch.tensor([0, 0, 0, 0, 0, 1, 1, 1])
    found = tokens_left(row, torch.tensor([5, 3]), torch.tensor([2, 2]))
    assert found.tolist() == [0, 0, 2, 1, 0, 0, 0, 0]


def scored(hidden: torch.Tensor, head: SpanHead, first: int, last: int) -> float:
    """The logit of one span, by its definition."""
    begin, end = (head.ends(hidden[at])[i] for i, at in enumerate((first, last)))
    both = head.first(hidden[first]) @ head.last(hidden[last]) / head.first.out_features**0.5
    return float(begin + end + both + head.lengths[last - first])


@torch.no_grad()
def test_every_span_within_a_passage_is_scored_and_no_other() -> None:
    """Rows of 7, 3 and 4 tokens: passages of 4, 0 and 1."""
    torch.manual_seed(0)
    head, hidden = SpanHead(D, rank=4, longest=3), torch.randn(14, D)
    torch.nn.init.normal_(head.lengths)
    found = head(hidden, torch.tensor([7, 3, 4]), torch.tensor([2, 2, 2]))
    within = [(2, 2), (2, 3), (2, 4), (3, 3), (3, 4), (3, 5), (4, 4), (4, 5), (5, 5), (12, 12)]
    expected = torch.full((14, 3), -torch.inf)
    for first, last in within:
        expected[first, last - first] = scored(hidden, head, first, last)
    torch.testing.assert_close(found, expected)
    short = head(hidden[:2], torch.tensor([2]), torch.tensor([0]))  # fewer tokens than a span has
    assert short.isfinite().tolist() == [[True, False, False], [False, False, False]]


def test_a_new_head_finds_hardly_any_answer() -> None:
    head = SpanHead(D)
    assert head.ends.bias.tolist() == [-3.0, -3.0]
    assert head.lengths.tolist() == [0.0] * 16
    assert head(torch.zeros(9, D), torch.tensor([9]), torch.tensor([0]))[0, 0].item() == -6.0


@pytest.mark.parametrize("make", [answers_over_bert, answers_over_t5])
def test_logits_are_in_32_bits_under_autocast(make: Make) -> None:
    given = candidates(COUNTS)
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        found = make().encode(given).answers
    assert found is not None
    assert found.dtype == torch.float32
    assert found.shape == (len(given.ids), 16)
    row = torch.repeat_interleave(given.lengths)
    left = tokens_left(row, given.lengths, given.passage_starts)
    assert (given.lengths == 3).any()  # one has no token of its own
    assert torch.equal(found.isfinite().sum(1), left.clamp(max=16))


def test_gradients_are_numbers_even_where_a_passage_is_empty() -> None:
    torch.manual_seed(0)
    answers, hidden = SpanHead(D), torch.randn(8, D, requires_grad=True)
    found = answers(hidden, torch.tensor([5, 3]), torch.tensor([2, 2]))
    found.sigmoid().sum().backward()
    assert hidden.grad is not None
    assert torch.isfinite(hidden.grad).all()
    assert hidden.grad[2:4].abs().min() > 0
    assert hidden.grad[[0, 1, 4, 5, 6, 7]].abs().max() == 0


def test_the_span_head_of_earlier_versions_is_an_error(tmp_path: Path) -> None:
    write_joint(tmp_path, answers_over_bert(), {"style": "bert"})
    without_sums(tmp_path / "joint.json")
    config, weights = read_checkpoint(tmp_path)
    old = {name: w for name, w in weights.items() if not name.startswith("answers.")}
    write_checkpoint(tmp_path, config, {**old, "answers.ends.weight": torch.zeros(2, D)})
    with pytest.raises(FormatError, match=r"jpr 0\.1.* train"):
        read_joint(tmp_path)


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
