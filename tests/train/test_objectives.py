import math

import pytest
import torch

from jpr.train.objectives import (
    choice_loss,
    distillation,
    first_logits,
    pair_loss,
    pointwise_loss,
    span_loss,
    yes_no_loss,
)
from tests.models.joint_models import MODELS, candidates

LOG = torch.tensor([[[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]]]).log()
"""One question, two steps, three candidates."""
NONE = torch.zeros(1, 2, 3, dtype=torch.bool)


def targets(*wanted: tuple[int, int]) -> torch.Tensor:
    found = NONE.clone()
    for step, candidate in wanted:
        found[0, step, candidate] = True
    return found


@pytest.mark.parametrize(
    ("normalise", "expected"),
    [
        ("sum", -math.log(0.5) - math.log(0.25) - math.log(0.8)),
        ("each", (-math.log(0.5) - math.log(0.25)) / 2 - math.log(0.8)),
        ("any", -math.log(0.75) - math.log(0.8)),
    ],
)
def test_losses_by_hand(normalise: str, expected: float) -> None:
    wanted = targets((0, 0), (0, 1), (1, 2))
    assert choice_loss(LOG, wanted, normalise).item() == pytest.approx(expected)


@pytest.mark.parametrize("normalise", ["sum", "each", "any"])
def test_a_step_without_a_target_does_not_count(normalise: str) -> None:
    assert choice_loss(LOG, NONE, normalise).item() == 0
    first = choice_loss(LOG[:, :1], targets((0, 0))[:, :1], normalise)
    assert choice_loss(LOG, targets((0, 0)), normalise).item() == pytest.approx(first.item())


@pytest.mark.parametrize("normalise", ["sum", "each", "any"])
@pytest.mark.parametrize("make", MODELS)
def test_gradients_are_numbers_after_all_is_chosen(make: object, normalise: str) -> None:
    """The second question has one candidate, so that nothing can follow it."""
    assert callable(make)
    model = make()
    encoded = model.encode(candidates((4, 1)))
    log_probs = model.log_probs(encoded, torch.tensor([[2, 0], [0, 0]]))
    wanted = torch.zeros_like(log_probs, dtype=torch.bool)
    wanted[0, :2, 1] = True
    wanted[1, 0, 0] = True
    choice_loss(log_probs, wanted, normalise).backward()  # type: ignore[no-untyped-call]  # loose
    given = [weight.grad for weight in model.parameters() if weight.grad is not None]
    assert given
    assert all(bool(gradient.isfinite().all()) for gradient in given)


def test_pointwise_is_the_mean_over_candidates() -> None:
    logits = torch.tensor([[0.0, 2.0, 50.0]])
    inside = torch.tensor([[True, True, False]])
    wanted = torch.tensor([[True, False, False]])
    expected = (math.log(2) + math.log(1 + math.exp(2))) / 2
    assert pointwise_loss(logits, wanted, inside).item() == pytest.approx(expected)


def test_pointwise_is_yes_no_over_two_words() -> None:
    logits = torch.tensor([0.3, -1.2, 2.0])
    wanted = torch.tensor([True, False, True])
    two = torch.stack([logits, torch.zeros(3)], dim=1)
    alone = pointwise_loss(logits[None], wanted[None], torch.ones(1, 3, dtype=torch.bool)) * 3
    assert yes_no_loss(two, wanted).item() == pytest.approx(alone.item())


@pytest.mark.parametrize("make", MODELS)
def test_the_first_step_is_the_softmax_of_the_first_logits(make: object) -> None:
    assert callable(make)
    model = make()
    encoded = model.encode(candidates((4, 2)))
    logits = first_logits(model, encoded).masked_fill(~encoded.inside, -torch.inf)
    expected = model.log_probs(encoded, torch.zeros(2, 0, dtype=torch.long))[:, 0]
    torch.testing.assert_close(logits.log_softmax(-1), expected)


def test_a_perfect_student_loses_nothing() -> None:
    inside = torch.tensor([[True, True, False]])
    teacher = torch.tensor([[1.0, 3.0, 7.0]])
    own = (teacher - 5).masked_fill(~inside, -torch.inf).log_softmax(-1).requires_grad_()
    loss = distillation(own, teacher, inside)
    loss.backward()  # type: ignore[no-untyped-call]  # torch types it loosely
    assert loss.item() == pytest.approx(0, abs=1e-6)
    assert own.grad is not None
    assert bool(own.grad.isfinite().all())


def test_distillation_by_hand() -> None:
    inside = torch.ones(1, 2, dtype=torch.bool)
    student, teacher = torch.tensor([[0.5, 0.5]]).log(), torch.tensor([[0.9, 0.1]]).log()
    expected = 0.9 * math.log(0.9 / 0.5) + 0.1 * math.log(0.1 / 0.5)
    assert distillation(student, teacher + 3, inside).item() == pytest.approx(expected)


def test_the_share_of_attention_on_answers_by_hand() -> None:
    """Three candidates of two, three and one tokens; the last has no answer."""
    attention = torch.tensor([0.25, 0.75, 0.1, 0.3, 0.6, 1.0]).log().requires_grad_()
    answers = torch.tensor([True, False, False, True, True, False])
    row = torch.tensor([0, 0, 1, 1, 1, 2])
    together = span_loss(attention, answers, row, torch.tensor([0, 0, 0]))
    assert together.item() == pytest.approx(-(math.log(0.25) + math.log(0.9)) / 2)
    apart = span_loss(attention, answers, row, torch.tensor([0, 1, 2]))
    assert apart.item() == pytest.approx(-math.log(0.25) - math.log(0.9))
    (gradient,) = torch.autograd.grad(together, attention)
    assert gradient.tolist() == pytest.approx([-0.5, 0, 0, -1 / 6, -1 / 3, 0])


def test_without_answers_there_is_no_share_to_lose() -> None:
    attention = torch.zeros(3, requires_grad=True)
    none = torch.zeros(3, dtype=torch.bool)
    loss = span_loss(attention, none, torch.arange(3), torch.tensor([0, 0, 1]))
    assert loss.item() == 0
    (gradient,) = torch.autograd.grad(loss, attention)
    assert gradient.tolist() == [0, 0, 0]


def test_pairs_by_hand() -> None:
    """Answers 1, 1 and 2, 2, none: the first two share one, so do the next two."""
    covers = torch.tensor([[[1], [3], [2], [0]]], dtype=torch.uint8)
    logits = torch.arange(16.0).view(1, 4, 4)
    same = [
        math.log1p(math.exp(-logits[0, i, j].item())) for i, j in ((0, 1), (1, 0), (1, 2), (2, 1))
    ]
    other = [math.log1p(math.exp(logits[0, i, j].item())) for i, j in ((0, 2), (2, 0))]
    expected = sum(same) / 4 / 2 + sum(other) / 2 / 2
    assert pair_loss(logits, covers).item() == pytest.approx(expected)


@pytest.mark.parametrize(
    ("covers", "expected"),
    [
        ([1, 1, 1], math.log(2) / 2),  # one kind of pairs has half the weight
        ([1, 2, 4], math.log(2) / 2),
        ([1, 1, 2], math.log(2)),
        ([1, 0, 0], 0.0),  # no pair at all
    ],
)
def test_both_kinds_of_pairs_weigh_half(covers: list[int], expected: float) -> None:
    bits = torch.tensor(covers, dtype=torch.uint8).view(1, 3, 1)
    assert pair_loss(torch.zeros(1, 3, 3), bits).item() == pytest.approx(expected)
    twice = pair_loss(torch.zeros(2, 3, 3), bits.expand(2, -1, -1))
    assert twice.item() == pytest.approx(2 * expected)
