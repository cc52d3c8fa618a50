import math
import random

import numpy as np
import pytest
import torch

from jpr.errors import ConfigError
from jpr.models.bert import Bert
from jpr.models.config import BertConfig
from recipes.dual_encoder import (
    Data,
    DualConfig,
    Teacher,
    TokenRows,
    choose_rows,
    distillation_loss,
    encode_rows,
    false_negatives,
    nearest,
    softmax_loss,
    train_distant,
    train_full,
    vectors_of,
)
from recipes.mining import Example

N = 24


def tiny(seed: int = 0) -> Bert:
    torch.manual_seed(seed)
    return Bert(BertConfig(100, 16, 1, 2, 32, 16), dropout=0.0)


def problem() -> tuple[TokenRows, Data]:
    """Question i is answered by passage i alone, and their tokens have nothing in common."""
    passages = TokenRows.of([[10 + i, 10 + i, 9] for i in range(N)], head=(1,), tail=2)
    questions = TokenRows.of([[50 + i, 8] for i in range(N)], head=(1,), tail=2)
    examples = [Example(((i,),), ((i + 1) % N, (i + 2) % N), frozenset({i})) for i in range(N)]
    return passages, Data(questions, examples, [1.0] * N)


def found(questions: Bert, passages: torch.Tensor, data: Data) -> float:
    """The share of questions whose nearest passage is the right one."""
    rows, _ = nearest(encode_rows(questions, data.questions), passages, 1)
    return float((rows[:, 0] == torch.arange(N)).float().mean())


def test_the_loss_is_the_softmax_of_dpr_not_a_ratio_of_inner_products() -> None:
    scores = torch.tensor([[2.0, 1.0, 5.0]])
    excluded = torch.tensor([[False, False, True]])
    expected = -math.log(math.exp(2) / (math.exp(2) + math.exp(1)))
    assert softmax_loss(scores, torch.tensor([0]), excluded).item() == pytest.approx(expected)


def test_distillation_costs_nothing_where_distributions_agree() -> None:
    scores = torch.tensor([[2.0, 1.0, 0.0]])
    assert distillation_loss(scores, scores + 3).item() == pytest.approx(0, abs=1e-6)
    assert distillation_loss(scores, -scores).item() > 0.5


def test_a_passage_that_holds_the_answer_is_no_negative_of_that_question() -> None:
    examples = [Example(((4,),), (7,), frozenset({4, 5})), Example(((5,),), (8,), frozenset({5}))]
    table = false_negatives(examples, [4, 5, 7, 8, 4])
    assert table.tolist() == [[False, True, False, False, True], [False] * 5]


def test_a_batch_holds_a_positive_hard_and_random_passages_of_each_question() -> None:
    examples = [Example(((4, 6), (5,)), (7,), frozenset({4, 5, 6}))] * 50
    rows = choose_rows(examples, 1, 1000, random.Random(0))
    positives, hard, chance = rows[:50], rows[50:100], rows[100:]
    assert set(positives) == {4, 5, 6}
    assert positives.count(5) > 15  # half of the draws, though one passage in three
    assert set(hard) == {7}
    assert len(set(chance)) > 40
    assert not set(chance) & {4, 5, 6}


def test_vectors_do_not_depend_on_the_batches() -> None:
    passages, _ = problem()
    model = tiny().eval()
    alone = torch.cat([vectors_of(model, passages, torch.tensor([i]), 8, "mean") for i in range(N)])
    together = encode_rows(model, passages, longest=8, budget=17)
    assert np.allclose(alone.detach().numpy(), together.float().numpy(), atol=2e-3)


def test_distant_negatives_teach_questions_to_find_their_passages() -> None:
    passages, data = problem()
    model = tiny()
    before = found(model, encode_rows(model, passages), data)
    train_distant(model, passages, data, DualConfig(150, batch=12, learning_rate=5e-3, warmup=5))
    assert before < 0.3 < 0.9 < found(model, encode_rows(model, passages), data)


def test_full_negatives_teach_the_question_tower_alone() -> None:
    passages, data = problem()
    frozen = encode_rows(tiny(seed=1), passages)
    kept = frozen.clone()
    tower = tiny()
    train_full(tower, frozen, data, DualConfig(200, batch=12, learning_rate=1e-2, warmup=5))
    assert torch.equal(frozen, kept)
    assert found(tower, frozen, data) > 0.9


def test_a_student_follows_its_teacher_even_without_positives() -> None:
    passages, data = problem()
    taught = Teacher(torch.eye(N), torch.eye(N))  # it knows every answer
    wrong = [Example((((i + 5) % N,),), (i,), frozenset()) for i in range(N)]
    misled = Data(data.questions, wrong, data.weights)
    config = DualConfig(
        200, batch=12, learning_rate=5e-3, warmup=5, teacher_weight=1.0, teacher_scale=20.0
    )
    model = tiny()
    train_distant(model, passages, misled, config, teacher=taught)
    assert found(model, encode_rows(model, passages), data) > 0.9


def test_the_same_seed_gives_the_same_weights() -> None:
    passages, data = problem()
    models = [tiny(), tiny()]
    for model in models:
        train_distant(model, passages, data, DualConfig(3, batch=4))
    first, second = (model.state_dict() for model in models)
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_settings_without_meaning_are_refused() -> None:
    with pytest.raises(ConfigError, match="at least one step"):
        DualConfig(0)
    with pytest.raises(ConfigError, match="teacher_weight"):
        DualConfig(1, teacher_weight=2.0)
