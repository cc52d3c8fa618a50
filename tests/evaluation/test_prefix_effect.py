"""The diagnostic of P(next | prefix): models whose numbers can be computed by hand."""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from jpr.decode.search import Ask, Rows
from jpr.evaluation.prefix_effect import prefix_effect
from jpr.types import Prefix

START = np.log([0.4, 0.3, 0.2, 0.1])
COVERS = np.array([[1, 0], [1, 0], [0, 1], [0, 0]], dtype=np.bool_)


def asking(after: dict[Prefix, Sequence[float]]) -> Ask:
    """A model with these probabilities after some prefixes, else those of the first step."""

    def row(prefix: Prefix) -> NDArray[np.float64]:
        probs = np.array(after.get(prefix, np.exp(START)), dtype=np.float64)
        probs[list(prefix)] = 0.0
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(probs / probs.sum()))

    def ask(pairs: Sequence[tuple[int, Prefix]]) -> Rows:
        return [row(prefix) for _, prefix in pairs]

    return ask


def test_a_model_that_ignores_the_prefix_is_found_out() -> None:
    found = prefix_effect(asking({}), [COVERS], k=2)
    assert found.kl == pytest.approx(0.0)
    assert found.changed == 0.0
    assert found.novelty == pytest.approx(0.5)  # every candidate rises alike
    assert (found.questions, found.novelty_questions) == (1, 1)


def test_a_model_that_wants_new_answers_is_seen_to() -> None:
    wanting = asking({(0,): [0, 0.1, 0.8, 0.1], (1,): [0.2, 0, 0.7, 0.1]})
    found = prefix_effect(wanting, [COVERS], k=2)
    assert found.novelty == 1.0
    assert found.changed == 1.0  # 0 and 2 instead of 0 and 1
    ours, theirs = np.array([0.8, 0.1]) / 0.9, np.array([0.7, 0.1]) / 0.8
    assert found.kl == pytest.approx(float((ours * np.log(ours / theirs)).sum()))


def test_a_model_that_wants_repeats_is_below_chance() -> None:
    again = asking({(0,): [0, 0.9, 0.05, 0.05], (1,): [0.9, 0, 0.05, 0.05]})
    assert prefix_effect(again, [COVERS]).novelty == 0.0


def test_questions_without_a_choice_of_answers_do_not_count_for_novelty() -> None:
    single, few = COVERS[:, :1], COVERS[:2]
    found = prefix_effect(asking({}), [single, few])
    assert np.isnan(found.novelty)
    assert (found.questions, found.novelty_questions) == (1, 0)
