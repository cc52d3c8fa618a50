from collections.abc import Callable

import numpy as np
import pytest
import torch

from jpr.models.decoder_cache import CachePool, PrefixScorer
from jpr.models.joint import JointModel
from tests.models.joint_models import MODELS, candidates, pointer_over_bert


@pytest.mark.parametrize("make", MODELS)
def test_more_prefixes_than_there_are_places_make_the_room_larger(
    make: Callable[[], JointModel],
) -> None:
    model = make()
    encoded = model.encode(candidates((6, 5)))
    asked = [(0, (a, b, c)) for a in range(6) for b in range(6) for c in range(6)]
    asked = [(q, p) for q, p in asked if len(set(p)) == 3]
    together = PrefixScorer(model, encoded)
    found = together(asked)  # 120 prefixes and their beginnings, where 64 had places
    (again,) = together([asked[7]])
    alone = PrefixScorer(model, encoded)
    np.testing.assert_allclose(again, found[7], atol=1e-5)
    np.testing.assert_allclose(alone([asked[-1]])[0], found[-1], atol=1e-5)


def test_prefixes_may_be_longer_than_a_recorded_step_is_deep() -> None:
    model = pointer_over_bert()
    encoded = model.encode(candidates((20,)))
    order = tuple(np.random.default_rng(0).permutation(20)[:18].tolist())
    (stepwise,) = PrefixScorer(model, encoded)([(0, order)])
    whole = model.log_probs(encoded, torch.tensor([order]))[0, -1].detach().numpy()
    np.testing.assert_allclose(stepwise, whole, atol=1e-5)
    assert np.isfinite(stepwise).sum() == 2, "only the two that are left can come next"


def test_on_a_cpu_every_search_has_a_room_of_its_own() -> None:
    model = pointer_over_bert()
    encoded = model.encode(candidates((4,)))
    pool = CachePool(model)
    first = PrefixScorer(model, encoded, pool)
    before = first([(0, ())])[0]
    PrefixScorer(model, model.encode(candidates((4,), seed=1)), pool)([(0, ())])
    np.testing.assert_array_equal(first([(0, ())])[0], before)
