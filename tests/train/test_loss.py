import math

import numpy as np
import pytest
import torch

from jpr.train.batch import AnswerSpans
from jpr.train.loss import (
    answer_distillation,
    choice_loss,
    distillation,
    first_logits,
    pointwise_loss,
    span_loss,
)
from tests.models.joint_models import MODELS, candidates

LOG = torch.tensor([[[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]]]).log()
"""One question, two steps, three candidates."""
NONE = torch.zeros(1, 2, 3, dtype=torch.bool)


def targets(*reference: tuple[int, int]) -> torch.Tensor:
    found = NONE.clone()
    for step, candidate in reference:
        found[0, step, candidate] = True
    return found


@pytest.mark.parametrize(
    ("normalize", "expected"),
    [
        ("sum", -math.log(0.5) - math.log(0.25) - math.log(0.8)),
        ("mean", (-math.log(0.5) - math.log(0.25)) / 2 - math.log(0.8)),
        ("any", -math.log(0.75) - math.log(0.8)),
    ],
)
def test_losses_by_hand(normalize: str, expected: float) -> None:
    reference = targets((0, 0), (0, 1), (1, 2))
    assert choice_loss(LOG, reference, normalize).item() == pytest.approx(expected)


@pytest.mark.parametrize("normalize", ["sum", "mean", "any"])
def test_a_step_without_a_target_does_not_count(normalize: str) -> None:
    assert choice_loss(LOG, NONE, normalize).item() == 0
    first = choice_loss(LOG[:, :1], targets((0, 0))[:, :1], normalize)
    assert choice_loss(LOG, targets((0, 0)), normalize).item() == pytest.approx(first.item())


@pytest.mark.parametrize("normalize", ["sum", "mean", "any"])
@pytest.mark.parametrize("make", MODELS)
def test_gradients_are_numbers_after_all_is_chosen(make: object, normalize: str) -> None:
    """The second question has one candidate, so that nothing can follow it."""
    assert callable(make)
    model = make()
    encoded = model.encode(candidates((4, 1)))
    log_probs = model.log_probs(encoded, torch.tensor([[2, 0], [0, 0]]))
    reference = torch.zeros_like(log_probs, dtype=torch.bool)
    reference[0, :2, 1] = True
    reference[1, 0, 0] = True
    choice_loss(log_probs, reference, normalize).backward()  # type: ignore[no-untyped-call]  # loose
    given = [weight.grad for weight in model.parameters() if weight.grad is not None]
    assert given
    assert all(bool(gradient.isfinite().all()) for gradient in given)


def test_pointwise_is_the_mean_over_candidates() -> None:
    logits = torch.tensor([[0.0, 2.0, 50.0]])
    inside = torch.tensor([[True, True, False]])
    reference = torch.tensor([[True, False, False]])
    expected = (math.log(2) + math.log(1 + math.exp(2))) / 2
    assert pointwise_loss(logits, reference, inside).item() == pytest.approx(expected)


@pytest.mark.parametrize("make", MODELS)
def test_the_first_step_is_the_softmax_of_the_first_logits(make: object) -> None:
    assert callable(make)
    model = make()
    encoded = model.encode(candidates((4, 2)))
    logits = first_logits(model, encoded).masked_fill(~encoded.mask, -torch.inf)
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


def test_answers_of_a_teacher_by_hand() -> None:
    """Three tokens of two candidates, spans of one or two; −∞ is no span."""

    def logit(p: float) -> float:
        return math.log(p / (1 - p))

    ours = torch.tensor([[0.0, logit(0.2)], [0.0, -math.inf], [0.0, -math.inf]])
    theirs = torch.tensor([[logit(0.9), logit(0.2)], [0.0, -math.inf], [logit(0.9), -math.inf]])
    ours.requires_grad_()
    loss = answer_distillation(ours, theirs, torch.tensor([0.7, 0.7, 0.3]))
    once = 0.9 * math.log(0.9 / 0.5) + 0.1 * math.log(0.1 / 0.5)
    assert loss.item() == pytest.approx(0.7 * once + 0.3 * once)
    loss.backward()  # type: ignore[no-untyped-call]  # torch types it loosely
    assert ours.grad is not None
    assert bool(ours.grad.isfinite().all())


def places(*bounds: tuple[int, int]) -> AnswerSpans:
    """The occurrences of answers from these tokens to those, included."""
    first, last = np.array(bounds, dtype=np.int64).reshape(-1, 2).T
    return AnswerSpans(first * 0, first * 0, first * 0, first, last)


def passage(tokens: int, longest: int) -> torch.Tensor:
    """Logits 0 for the spans of one passage."""
    left = tokens - torch.arange(tokens)[:, None]
    return torch.zeros(tokens, longest).masked_fill(torch.arange(longest) >= left, -torch.inf)


def test_every_span_is_an_answer_or_none() -> None:
    """A passage of two tokens has three spans, and two of them are answers here."""
    logits = torch.tensor([[2.0, -1.0], [0.5, -math.inf]], requires_grad=True)
    loss = span_loss(logits, places((0, 0), (0, 1), (0, 1)), torch.tensor([1, 1]))
    expected = [math.log(1 + math.exp(x)) for x in (-2.0, 1.0, 0.5)]
    assert loss.item() == pytest.approx(sum(expected))
    loss.backward()  # type: ignore[no-untyped-call]  # torch types it loosely
    assert logits.grad is not None
    assert logits.grad.sign().tolist() == [[-1.0, -1.0], [1.0, 0.0]]


def test_questions_count_alike_however_many_candidates_they_have() -> None:
    """Three passages of two tokens: the first question has two of them, the second one."""
    logits = torch.cat([passage(2, 2)] * 3)
    loss = span_loss(logits, places(), torch.tensor([2, 2, 2, 2, 1, 1]))
    assert loss.item() == pytest.approx((3 + 3) / 2 * math.log(2) + 3 * math.log(2))


def test_what_overlaps_an_answer_too_long_to_score_is_neither() -> None:
    """The answer at 1 to 3 has three tokens, spans two at most; token 2 is an answer, too."""
    logits = passage(6, 2).requires_grad_()
    loss = span_loss(logits, places((1, 3), (2, 2)), torch.ones(6))
    loss.backward()  # type: ignore[no-untyped-call]  # torch types it loosely
    assert logits.grad is not None
    assert logits.grad.sign().tolist() == [[1, 0], [0, 0], [-1, 0], [0, 0], [1, 1], [1, 0]]
    assert loss.item() == pytest.approx(5 * math.log(2))
    to_the_end = span_loss(logits, places((3, 5)), torch.ones(6)).item()
    assert to_the_end == pytest.approx(5 * math.log(2))  # 0, 0–1, 1, 1–2 and 2
