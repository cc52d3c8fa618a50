import math

import numpy as np
import pytest
import torch

from jpr.models.candidates import EncodedBatch
from jpr.train.batch import AnswerSpans
from jpr.train.loss import (
    AnswerLikelihoods,
    answer_distillation,
    answer_likelihoods,
    answer_loss,
    choice_loss,
    distillation,
    first_logits,
    pointwise_loss,
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
    """Two candidates of two and one tokens; what is around passages has no part in it."""
    half, low, high = math.log(0.5), math.log(0.1), math.log(0.9)
    ours = torch.tensor([[half, half], [half, half], [-math.inf, -math.inf], [0.0, 0.0]])
    theirs = torch.tensor([[high, half], [low, half], [-math.inf, -math.inf], [0.0, 0.0]])
    ours.requires_grad_()
    shares = torch.tensor([0.7, 0.7, 0.7, 0.3])
    loss = answer_distillation(ours, theirs, shares)
    expected = 0.7 * (0.9 * math.log(0.9 / 0.5) + 0.1 * math.log(0.1 / 0.5))
    assert loss.item() == pytest.approx(expected)
    loss.backward()  # type: ignore[no-untyped-call]  # torch types it loosely
    assert ours.grad is not None
    assert bool(ours.grad.isfinite().all())


def known() -> AnswerLikelihoods:
    """One question: candidates 0 and 1 contain answer 0, candidate 2 contains answer 1."""
    log_prob = torch.tensor([0.5, 0.25, 1.0]).log().requires_grad_()
    answer, place = torch.tensor([0, 0, 1]), torch.tensor([0, 1, 2])
    return AnswerLikelihoods(torch.tensor([0, 0]), answer, place, log_prob)


def test_answers_that_are_still_to_be_found_by_hand() -> None:
    given = torch.tensor([[[0.5, 0.3, 0.2], [0.0, 0.6, 0.4]]]).log().requires_grad_()
    told_ = known()
    loss = answer_loss(given, torch.tensor([[0]]), told_)
    first = -math.log(0.5 * 0.5 + 0.3 * 0.25) - math.log(0.2)
    second = -math.log(0.4)  # answer 0 was found
    assert loss.item() == pytest.approx((first + second) / 2)
    gradients = torch.autograd.grad(loss, [given, told_.log_prob])
    assert all(gradient.isfinite().all() for gradient in gradients)


def test_after_the_end_of_a_prefix_no_answer_counts() -> None:
    given = torch.tensor([[[0.5, 0.3, 0.2], [0.5, 0.3, 0.2]]]).log()
    loss = answer_loss(given, torch.tensor([[-1]]), known())
    once = -math.log(0.5 * 0.5 + 0.3 * 0.25) - math.log(0.2)
    assert loss.item() == pytest.approx(once / 2)


def test_an_answer_is_reported_by_all_its_spans() -> None:
    """Two questions; the second candidate of the first has answer 4 twice, and answer 2."""
    ends = torch.full((8, 2), 0.01).log()
    ends[[3, 4, 5]] = torch.tensor([[0.5, 0.2], [0.3, 0.1], [0.1, 0.6]]).log()
    none = torch.empty(0)
    encoded = EncodedBatch(none, none, none, none, none, none, (2, 1), ends)
    spans = AnswerSpans(
        candidates=np.array([0, 1, 1, 1, 2]),
        answers=np.array([2, 2, 4, 4, 4]),
        positions=np.zeros(5, dtype=np.int64),  # not used here
        first=np.array([0, 3, 3, 5, 7]),
        last=np.array([0, 4, 3, 5, 7]),
    )
    found = answer_likelihoods(encoded, spans)
    assert found.question.tolist() == [0, 0, 1]
    assert found.answer.tolist() == [0, 0, 1, 2]
    assert found.place.tolist() == [0, 1, 1, 0]
    expected = [0.01**2, 0.5 * 0.1, 0.5 * 0.2 + 0.1 * 0.6, 0.01**2]
    assert found.log_prob.exp().tolist() == pytest.approx(expected)
