"""Tests of differences: formulas by loops, probabilities by integration, invariants."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.integrate import quad

from bagwise.evaluate import corrected_t_test
from bagwise.exceptions import InputError

FOLDS = [0.02, 0.05, -0.01, 0.03, 0.01, 0.0, 0.04]
folds = st.lists(st.floats(-1, 1), min_size=1, max_size=12)


def slow_variance(differences, test_ratio):
    """Nadeau and Bengio (2003): (1/J + n_test/n_train) s^2, by loops."""
    mean = sum(differences) / len(differences)
    total = 0.0
    for difference in differences:
        total += (difference - mean) ** 2
    return (1 / len(differences) + test_ratio) * total / (len(differences) - 1)


def density(x, df, mean, variance):
    """Student's t density, from its definition."""
    from math import gamma, pi, sqrt

    z = (x - mean) ** 2 / variance
    norm = gamma((df + 1) / 2) / (gamma(df / 2) * sqrt(df * pi * variance))
    return norm * (1 + z / df) ** (-(df + 1) / 2)


@pytest.mark.parametrize("test_ratio", [0.1, 0.25, 1.0])
def test_the_corrected_test_is_its_formula(test_ratio):
    found = corrected_t_test(FOLDS, test_ratio=test_ratio, confidence=0.9)
    mean, variance = np.mean(FOLDS), slow_variance(FOLDS, test_ratio)
    assert found.mean == pytest.approx(mean)
    beyond, _ = quad(density, -np.inf, 0, args=(6, mean, variance))
    assert found.p_value == pytest.approx(2 * beyond, rel=1e-6)
    inside, _ = quad(density, found.lower, found.upper, args=(6, mean, variance))
    assert inside == pytest.approx(0.9, abs=1e-6)
    assert found.upper - mean == pytest.approx(mean - found.lower)


@pytest.mark.parametrize("rope", [0.0, 0.01, 0.05])
def test_probabilities_are_the_areas_of_the_posterior(rope):
    found = corrected_t_test(FOLDS, test_ratio=0.25, rope=rope)[4:]
    posterior = (6, np.mean(FOLDS), slow_variance(FOLDS, 0.25))
    edges = [(-np.inf, -rope), (-rope, rope), (rope, np.inf)]
    expected = [quad(density, *edge, args=posterior)[0] for edge in edges]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_without_overlap_it_is_the_paired_t_test():
    found = corrected_t_test(FOLDS, test_ratio=1e-15)
    assert found.p_value == pytest.approx(stats.ttest_1samp(FOLDS, 0).pvalue)


def test_the_size_of_the_test_is_five_percent(rng):
    # Scores of 10 x 10 folds of equal models: differences with the correlation n_test / n.
    n_draws, rho = 1500, 0.1
    shared = rng.normal(size=(n_draws, 1))
    differences = np.sqrt(rho) * shared + np.sqrt(1 - rho) * rng.normal(size=(n_draws, 100))
    p_values = [corrected_t_test(row, test_ratio=1 / 9).p_value for row in differences]
    assert 0.03 < np.mean(np.array(p_values) < 0.05) < 0.07
    plain = stats.ttest_1samp(differences, 0, axis=1).pvalue
    assert np.mean(plain < 0.05) > 0.4  # what the correction is for


@given(folds, st.floats(0.01, 1), st.floats(0, 0.1))
def test_the_laws_of_a_difference(differences, test_ratio, rope):
    turned = [-difference for difference in differences]
    test = corrected_t_test(differences, test_ratio=test_ratio)
    back = corrected_t_test(turned, test_ratio=test_ratio)
    nan = {"nan_ok": True}
    assert test.mean == pytest.approx(-back.mean, abs=1e-15)
    assert test.p_value == pytest.approx(back.p_value, rel=1e-9, **nan)
    assert test.lower == pytest.approx(-back.upper, rel=1e-9, abs=1e-12, **nan)
    chances = corrected_t_test(differences, test_ratio=test_ratio, rope=rope)[4:]
    mirrored = corrected_t_test(turned, test_ratio=test_ratio, rope=rope)[4:]
    np.testing.assert_allclose(chances, mirrored[::-1], atol=1e-9)
    if np.isnan(test.p_value):
        assert np.isnan(chances).all()
        return
    assert sum(chances) == pytest.approx(1)
    assert min(chances) >= 0
    # Without a region of equivalence, the smaller probability is half the p-value.
    worse, _, better = corrected_t_test(differences, test_ratio=test_ratio, rope=0)[4:]
    if any(abs(difference) >= 1e-12 for difference in differences):
        assert 2 * min(worse, better) == pytest.approx(test.p_value, rel=1e-9)


def test_more_folds_narrow_the_interval_until_the_overlap_is_left():
    width = {}
    for n_repeats in (1, 2, 10, 1000):
        found = corrected_t_test(FOLDS * n_repeats, test_ratio=0.25)
        width[n_repeats] = found.upper - found.lower
    assert width[1] > width[2] > width[10] > width[1000]
    left = 2 * 1.96 * np.sqrt(0.25 * np.var(FOLDS))
    assert width[1000] == pytest.approx(left, rel=0.01)


def test_equal_models_are_equal():
    assert corrected_t_test([0.0] * 5, test_ratio=0.25) == (0, 0, 0, 1, 0, 1, 0)
    assert corrected_t_test([1e-17, -1e-17], test_ratio=0.25, rope=0)[4:] == (0, 1, 0)


@pytest.mark.parametrize("differences", [[0.1], [0.1, 0.1, 0.1], [0.3, 0.1 + 0.2]])
def test_folds_that_do_not_vary_have_no_interval(differences):
    found = corrected_t_test(differences, test_ratio=0.25)
    assert found.mean == pytest.approx(np.mean(differences))
    assert np.isnan([found.lower, found.upper, found.p_value]).all()
    assert np.isnan(corrected_t_test(differences, test_ratio=0.25)[4:]).all()


@pytest.mark.parametrize(
    ("differences", "settings", "message"),
    [
        ([[0.1]], {}, "a finite number per fold"),
        ([0.1, np.nan], {}, "a finite number per fold"),
        (FOLDS, {"test_ratio": 0}, "test_ratio is 0"),
        (FOLDS, {"rope": -0.1}, "rope -0.1"),
        (FOLDS, {"confidence": 95}, "confidence 95"),
    ],
)
def test_what_cannot_be_tested_is_refused(differences, settings, message):
    with pytest.raises(InputError, match=message):
        corrected_t_test(differences, **{"test_ratio": 0.25} | settings)
