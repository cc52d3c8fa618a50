import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from jpr.evaluation.statistics import bootstrap, holm, mcnemar, permutation


def test_the_interval_is_about_two_standard_errors_to_each_side() -> None:
    values = np.random.default_rng(1).random((400, 2))
    low, high = bootstrap(values)
    error = values.std(axis=0) / 20
    np.testing.assert_allclose(low, values.mean(axis=0) - 1.96 * error, atol=0.003)
    np.testing.assert_allclose(high, values.mean(axis=0) + 1.96 * error, atol=0.003)


def test_the_same_values_give_the_same_interval_alone_or_together() -> None:
    values = np.random.default_rng(2).random((50, 3))
    together, alone = bootstrap(values), bootstrap(values[:, :1])
    np.testing.assert_allclose(together[:, :1], alone, rtol=1e-12)


def test_no_question_has_no_interval() -> None:
    assert np.isnan(bootstrap(np.zeros((0, 2)))).all()


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 5))
def test_mcnemar_is_the_binomial_test_on_disagreements(won: int, lost: int, agreed: int) -> None:
    ours = np.array([1.0] * won + [0.0] * lost + [1.0] * agreed)
    theirs = np.array([0.0] * won + [1.0] * lost + [1.0] * agreed)
    expected = scipy.stats.binomtest(won, won + lost).pvalue if won + lost else 1.0
    assert mcnemar(ours, theirs) == pytest.approx(expected)


def test_the_permutation_test_is_exact_for_few_differences() -> None:
    chance = np.random.default_rng(3)
    ours, theirs = chance.random(9), chance.random(9)
    expected = scipy.stats.permutation_test(
        (ours, theirs), lambda a, b: np.mean(a - b), permutation_type="samples", n_resamples=np.inf
    ).pvalue
    assert permutation(ours, theirs) == pytest.approx(expected)


def test_the_permutation_test_samples_for_many_differences() -> None:
    chance = np.random.default_rng(4)
    ours, theirs = chance.random(300) + 0.03, chance.random(300)
    expected = scipy.stats.ttest_rel(ours, theirs).pvalue  # close, as n is large
    assert permutation(ours, theirs) == pytest.approx(expected, abs=0.02)


def test_equal_runs_do_not_differ() -> None:
    values = np.random.default_rng(5).random(30)
    assert permutation(values, values) == mcnemar(values.round(), values.round()) == 1.0


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_never_lowers_a_p_value_and_keeps_their_order(p_values: list[float]) -> None:
    corrected = holm(p_values)
    assert all(p <= c <= 1 for p, c in zip(p_values, corrected, strict=True))
    assert [corrected[i] for i in np.argsort(p_values)] == sorted(corrected)
    assert min(corrected) == pytest.approx(min(1.0, len(p_values) * min(p_values)))


def test_a_sampled_p_value_is_never_zero() -> None:
    assert permutation(np.ones(100), np.zeros(100)) == 1 / 10_001
