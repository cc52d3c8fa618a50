import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from jpr.errors import ConfigError, FormatError
from jpr.models.bert import Bert, BertConfig
from jpr.models.joint import Encoded, JointModel, PointerHead
from jpr.models.joint_folder import joint_over_t5, read_joint, write_joint
from jpr.models.pairs import Pairs, log_sums
from jpr.models.rooms import Rooms
from jpr.models.steps import Steps
from jpr.models.t5 import T5, T5Config, T5Decoder
from jpr.models.t5_names import write_t5
from tests.models.joint_models import (
    MODELS,
    NUMBERS,
    D,
    candidates,
    pairs_over_bert,
    pairs_over_t5,
    pointer_over_bert,
    pointer_over_t5,
    t5_config,
)

Make = Callable[[], JointModel]
with_pairs = pytest.mark.parametrize("make", [pairs_over_bert, pairs_over_t5])
COUNTS = (4, 3)


def pairs_of(model: JointModel) -> Pairs:
    assert model.head.pairs is not None
    return model.head.pairs


@with_pairs
def test_an_answer_vector_is_a_mixture_of_its_own_tokens(make: Make) -> None:
    model, given = make(), candidates(COUNTS)
    with torch.no_grad():
        encoded = model.encode(given)
        hidden = model.encoder.packed(given.ids, given.lengths)
        score = pairs_of(model).score
        texts = torch.split(hidden, given.lengths.tolist())
        shares = [score(text)[:, 0].softmax(0) for text in texts]
    assert encoded.attention is not None
    assert encoded.answers is not None
    torch.testing.assert_close(encoded.attention.exp(), torch.cat(shares))
    mixed = torch.stack([share @ text for share, text in zip(shares, texts, strict=True)])
    torch.testing.assert_close(encoded.answers[encoded.inside], mixed)
    assert not encoded.answers[~encoded.inside].any()


@with_pairs
def test_each_chosen_passage_lowers_the_others_by_their_redundancy(make: Make) -> None:
    model = make()
    encoded = model.encode(candidates(COUNTS))
    prefixes = torch.tensor([[2, 0], [1, 0]])
    redundancy = model.head.redundancy(encoded)
    assert redundancy is not None
    assert isinstance(model.head, PointerHead)
    strength = torch.nn.functional.softplus(10 * pairs_of(model).raw_strength)
    expected = strength * torch.nn.functional.softplus(model.head.pair_logits(encoded))
    torch.testing.assert_close(redundancy, expected)
    with torch.no_grad():
        found = model.log_probs(encoded, prefixes)
        plain = model.log_probs(replace(encoded, answers=None), prefixes)
    left = plain[0, 2] - redundancy[0, :, 2] - redundancy[0, :, 0]
    torch.testing.assert_close(found[0, 2], left.log_softmax(-1))
    torch.testing.assert_close(found[:, 0], plain[:, 0])  # nothing is chosen yet


@pytest.mark.parametrize(
    ("make", "plain"), [(pairs_over_bert, pointer_over_bert), (pairs_over_t5, pointer_over_t5)]
)
def test_pairs_without_strength_are_none(make: Make, plain: Make) -> None:
    model, other = make(), plain()
    torch.nn.init.constant_(pairs_of(model).raw_strength, -20.0)
    other.load_state_dict({n: w for n, w in model.state_dict().items() if "pairs" not in n})
    given, prefixes = candidates(COUNTS), torch.tensor([[3, 1], [0, 1]])
    with torch.no_grad():
        found, wanted = (m.log_probs(m.encode(given), prefixes) for m in (model, other))
    torch.testing.assert_close(found, wanted, rtol=0, atol=0)


def test_in_the_beginning_pairs_hardly_count() -> None:
    model = pointer_over_bert(pairs=64)
    redundancy = model.head.redundancy(model.encode(candidates(COUNTS)))
    assert redundancy is not None
    assert 0 < redundancy.max().item() < 0.1


def invented(model: JointModel) -> Encoded:
    """Four candidates, the first and the third of which have the same answer."""
    pairs = pairs_of(model)
    torch.nn.init.eye_(pairs.left.weight)
    torch.nn.init.eye_(pairs.right.weight)
    torch.nn.init.constant_(pairs.bias, -10.0)
    torch.nn.init.constant_(pairs.raw_strength, 1.0)
    answers = torch.eye(D)[torch.tensor([[0, 1, 0, 2]])] * (20 / pairs.scale) ** 0.5
    return replace(model.encode(candidates((4,))), answers=answers)


@pytest.mark.parametrize("make", [pointer_over_bert, pointer_over_t5])
def test_candidates_of_the_same_answer_exclude_each_other(
    make: Callable[[int, int], JointModel],
) -> None:
    model = make(0, D)
    encoded = invented(model)  # logits of pairs: 10 for the same answer, -10 for others
    with torch.no_grad():
        assert isinstance(model.head, PointerHead)
        torch.testing.assert_close(
            model.head.pair_logits(encoded)[0, 0], torch.tensor([10.0, -10, 10, -10])
        )
        plain = model.log_probs(replace(encoded, answers=None), torch.tensor([[0]]))[0, 1].exp()
    (row,) = Steps(model, encoded)([(0, (0,))])
    assert np.exp(row[2]) < 1e-30
    others = plain[[1, 3]] / plain[[1, 3]].sum()
    np.testing.assert_allclose(np.exp(row[[1, 3]]), others.numpy(), atol=1e-3)


@with_pairs
def test_sixteen_bits_around_it_leave_it_in_thirty_two(make: Make) -> None:
    model, given = make(), candidates(COUNTS)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        encoded = model.encode(given)
        redundancy = model.head.redundancy(encoded)
    assert encoded.attention is not None
    assert encoded.answers is not None
    assert redundancy is not None
    assert {encoded.attention.dtype, encoded.answers.dtype, redundancy.dtype} == {torch.float32}
    row = torch.repeat_interleave(given.lengths)
    sums = log_sums(encoded.attention, row, sum(COUNTS))
    torch.testing.assert_close(sums, torch.zeros(7), rtol=0, atol=1e-6)
    half = make().bfloat16()
    with torch.inference_mode():
        found = half.head.redundancy(half.encode(given))
    assert found is not None
    torch.testing.assert_close(found, redundancy, rtol=0.1, atol=0.1)


def test_attention_may_be_as_sharp_as_it_likes() -> None:
    pairs = Pairs(D, 4)
    torch.nn.init.constant_(pairs.score.weight, 1e4)
    hidden = torch.randn(7, D, requires_grad=True)
    shares, mixed = pairs.pooled(hidden, torch.tensor([3, 4]))
    torch.autograd.backward(mixed.sum() + shares.max())
    assert bool(shares.isfinite().all())
    assert hidden.grad is not None
    assert bool(hidden.grad.isfinite().all())
    best = hidden.detach().sum(1)
    torch.testing.assert_close(mixed[0], hidden[best[:3].argmax()])


@pytest.mark.parametrize("make", MODELS)
def test_folders_keep_what_a_model_has(make: Make, tmp_path: Path) -> None:
    model = make()
    write_joint(tmp_path, model, {"style": "bert"})
    again, prompt = read_joint(tmp_path)
    assert prompt == {"style": "bert"}
    for name, weight in model.state_dict().items():
        torch.testing.assert_close(again.state_dict()[name], weight)
    assert (again.head.pairs is None) == (model.head.pairs is None)


def test_folders_of_before_there_were_pairs_are_read(tmp_path: Path) -> None:
    write_joint(tmp_path, pointer_over_bert(), {"style": "bert"})
    file = tmp_path / "joint.json"
    about = json.loads(file.read_text())
    assert about.pop("pairs") == 0
    file.write_text(json.dumps(about))
    assert read_joint(tmp_path)[0].head.pairs is None
    for bad in (-1, "8", 8, True, None, 2.0):
        file.write_text(json.dumps({**about, "pairs": bad}))
        with pytest.raises(FormatError, match="is damaged"):
            read_joint(tmp_path)


def test_numbers_have_no_pairs(tmp_path: Path) -> None:
    write_t5(tmp_path, T5(t5_config()))
    assert joint_over_t5(tmp_path, "pointer", NUMBERS, pairs=3).head.pairs is not None
    with pytest.raises(ConfigError, match="pairs = 3 with an index head"):
        joint_over_t5(tmp_path, "index", NUMBERS, pairs=3)
    model = pointer_over_bert()
    encoded = model.encode(candidates((3,)))
    assert encoded.answers is None
    assert encoded.attention is None
    assert isinstance(model.head, PointerHead)
    with pytest.raises(ConfigError, match="has no pairs"):
        model.head.pair_logits(encoded)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@torch.inference_mode()
def test_recorded_steps_know_pairs() -> None:
    torch.manual_seed(0)
    bert = Bert(BertConfig(500, 64, 2, 2, 128, 512))
    decoder = T5Decoder(T5Config(1, 64, 32, 128, 1, 2, 2))
    model = JointModel(bert, decoder, PointerHead(64, 16), "passages").cuda().bfloat16().eval()
    torch.nn.init.constant_(pairs_of(model).raw_strength, 0.2)
    exact, rooms, these = deepcopy(model).float(), Rooms(model), candidates((6, 5))
    tensors = ("ids", "lengths", "marks", "numbers", "prior")
    given = replace(these, **{name: getattr(these, name).cuda() for name in tensors})
    prefixes = [[2, 0, 1], [4, 3, 2]]
    wanted = exact.log_probs(exact.encode(given), torch.tensor(prefixes).cuda()).cpu()
    asked = [(q, tuple(prefixes[q][:t])) for q in range(2) for t in range(4)]
    for _ in range(2):  # the second time in the same room
        rows = Steps(model, rooms.encode(given), rooms)(asked)
        for (q, prefix), row in zip(asked, rows, strict=True):
            expected = wanted[q, len(prefix), : these.counts[q]].exp()
            np.testing.assert_allclose(np.exp(row), expected, atol=0.03)
