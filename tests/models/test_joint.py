from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from jpr.decode.search import Limits, Rows, chosen_passages, decode_many
from jpr.decode.sequences import sequence
from jpr.decode.tree import tree
from jpr.errors import ConfigError, DataError
from jpr.models.bert import Bert
from jpr.models.config import BertConfig
from jpr.models.decoder_cache import PrefixScorer
from jpr.models.heads import PointerHead
from jpr.models.joint import JointModel
from jpr.models.t5 import T5Decoder
from jpr.types import Prefix
from tests.decode.alone import decode
from tests.models.joint_models import (
    MODELS,
    POINTERS,
    D,
    candidates,
    index_over_t5,
    pointer_over_bert,
    reordered,
    t5_config,
)

Make = Callable[[], JointModel]
some = settings(max_examples=20)


def test_numbers_that_no_candidate_has_share_in_the_probability() -> None:
    model = index_over_t5()
    encoded = model.encode(candidates((4, 2)))
    prefixes = torch.tensor([[1], [0]])
    alone, all_index_tokens = (
        model.log_probs(encoded, prefixes, all_index_tokens=way) for way in (False, True)
    )
    torch.testing.assert_close(all_index_tokens.log_softmax(-1), alone)
    assert bool((all_index_tokens.exp().sum(-1) < 0.999).all())
    pointer = pointer_over_bert()
    encoded = pointer.encode(candidates((4, 2)))
    same = (pointer.log_probs(encoded, prefixes, all_index_tokens=way) for way in (False, True))
    torch.testing.assert_close(*same)


@pytest.mark.parametrize("make", MODELS)
def test_rows_are_distributions_over_what_is_left(make: Make) -> None:
    model = make()
    encoded = model.encode(candidates((5, 3)))
    found = model.log_probs(encoded, torch.tensor([[4, 1], [0, 2]])).exp()  # (2, 3, 5)
    assert found.shape == (2, 3, 5)
    torch.testing.assert_close(found.sum(-1), torch.ones(2, 3))
    assert found[0, 1, 4] == found[0, 2, 4] == found[0, 2, 1] == 0
    assert (found[1, :, 3:] == 0).all()  # the second question has three candidates
    assert (found[0, 0] > 0).all()


@pytest.mark.parametrize("make", MODELS)
@given(data=st.data())
@some
def test_a_step_over_caches_is_the_whole_sequence_at_once(make: Make, data: st.DataObject) -> None:
    model = make()
    counts = data.draw(st.lists(st.integers(3, 6), min_size=1, max_size=3).map(tuple))
    encoded = model.encode(candidates(counts, seed=1))
    orders = [data.draw(st.permutations(range(count)))[:3] for count in counts]
    with torch.inference_mode():
        reference = model.log_probs(encoded, torch.tensor(orders)).numpy()
    pairs = [(q, tuple(orders[q][:t])) for q in range(len(counts)) for t in range(4)]
    asked = data.draw(st.permutations(pairs))
    steps = PrefixScorer(model, encoded)
    cut = data.draw(st.integers(0, len(asked)))
    rows = [*(steps(asked[:cut]) if cut else []), *(steps(asked[cut:]) if asked[cut:] else [])]
    for (question, prefix), row in zip(asked, rows, strict=True):
        expected = reference[question, len(prefix), : counts[question]]
        np.testing.assert_allclose(row, expected, atol=2e-5)


@pytest.mark.parametrize("make", MODELS)
def test_questions_together_are_as_alone(make: Make) -> None:
    model = make()
    both = candidates((4, 6), seed=2)
    rows = int(both.lengths[:4].sum())
    alone = candidates((4,), seed=2)
    assert torch.equal(both.ids[:4].clone(), both.ids[:4])
    first = type(both)(
        both.ids[:rows],
        both.lengths[:4],
        (4,),
        both.marks[:4],
        both.passage_starts[:4],
        both.index_ids[:4],
        both.prior[:4],
    )
    assert alone.counts == first.counts
    prefix = (2, 0)
    together = PrefixScorer(model, model.encode(both))([(0, prefix), (1, (5,))])[0]
    apart = PrefixScorer(model, model.encode(first))([(0, prefix)])[0]
    np.testing.assert_allclose(together, apart, atol=1e-5)


@pytest.mark.parametrize("make", POINTERS)
@given(data=st.data())
@some
def test_the_order_of_candidates_means_nothing_to_a_pointer(
    make: Make, data: st.DataObject
) -> None:
    model = make()
    torch.nn.init.ones_(model.head.prior)  # type: ignore[arg-type]
    given_order = candidates((6,), seed=data.draw(st.integers(0, 99)))
    order = data.draw(st.permutations(range(6)))
    prefix = tuple(data.draw(st.permutations(range(6)))[:2])  # numbers in the given order
    moved = tuple(order.index(p) for p in prefix)
    before = PrefixScorer(model, model.encode(given_order))([(0, prefix)])[0]
    after = PrefixScorer(model, model.encode(reordered(given_order, order)))([(0, moved)])[0]
    np.testing.assert_allclose(after, before[order], atol=2e-5)


@pytest.mark.parametrize("make", POINTERS)
def test_the_same_passages_are_chosen_in_whatever_order_they_come(make: Make) -> None:
    model = make()
    given_order, order = candidates((8,), seed=5), [3, 1, 7, 0, 6, 2, 5, 4]
    chosen = []
    for these in (given_order, reordered(given_order, order)):
        steps = PrefixScorer(model, model.encode(these))
        (found,) = decode_many([tree(8, Limits(4), beta=1.0)], steps)
        chosen.append(chosen_passages(found))
    assert [order[p] for p in chosen[1]] == list(chosen[0])


@pytest.mark.parametrize("make", MODELS)
def test_decoding_several_questions_is_one_call_a_round(make: Make) -> None:
    model = make()
    encoded = model.encode(candidates((5, 4, 6), seed=3))
    together = decode_many(
        [sequence(n, Limits(3)) for n in (5, 4, 6)], PrefixScorer(model, encoded)
    )
    for question, n in enumerate((5, 4, 6)):

        def alone(prefixes: Sequence[Prefix], question: int = question) -> Rows:
            return PrefixScorer(model, encoded)([(question, prefix) for prefix in prefixes])

        assert chosen_passages(together[question]) == chosen_passages(
            decode(sequence(n, Limits(3)), alone)
        )


def test_more_candidates_than_numbers_is_an_error_that_says_so() -> None:
    model = index_over_t5()
    given_ones = candidates((20,))
    numbers = torch.arange(20) + 1
    too_many = replace(given_ones, index_ids=numbers)
    with pytest.raises(ConfigError, match="21 candidates, but the index head has 20"):
        PrefixScorer(model, model.encode(too_many))


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"32.* 16"):
        JointModel(Bert(BertConfig(10, 32, 1, 2, 32, 32)), T5Decoder(t5_config()), PointerHead(D))
    model = pointer_over_bert()
    with pytest.raises(DataError, match="no candidates"):
        model.encode(candidates((3, 0)))
    steps = PrefixScorer(model, model.encode(candidates((3,))))
    with pytest.raises(DataError, match="choice of 3"):
        steps([(0, (1, 1))])
    with pytest.raises(DataError, match="choice of 3"):
        steps([(0, (3,))])


@pytest.mark.parametrize("make", MODELS)
def test_blocks_computed_twice_give_the_same_gradients(make: Callable[[], JointModel]) -> None:
    gradients = []
    for checkpointing in (False, True):
        model = make()
        model.encoder.checkpointing = checkpointing
        encoded = model.encode(candidates((4, 3)))
        chosen = model.log_probs(encoded, torch.tensor([[1], [2]]))[:, 0, :3]
        torch.autograd.backward(chosen.sum())
        gradients.append({n: p.grad for n, p in model.named_parameters() if p.grad is not None})
    assert gradients[0].keys() == gradients[1].keys()
    for name, reference in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], reference, msg=name)
