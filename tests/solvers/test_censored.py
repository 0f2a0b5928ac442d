"""Turnbull's estimator, expectations and Buckley-James: against slow versions and scipy."""

import numpy as np
import pytest
from scipy.stats import CensoredData, ecdf

from bagwise.solvers.censored import buckley_james, concordance, expected_numbers, turnbull
from cases import each


def right_censored(rng, n=60, ties=False):
    numbers = rng.normal(size=n).round(1 if ties else 12)
    censored = rng.random(n) < 0.4
    return numbers, censored


@each("ties", [False, True])
def test_right_censored_numbers_give_kaplan_meier(ties, rng):
    """At a tie the censored number is the larger one: its interval is open."""
    numbers, censored = right_censored(rng, ties=ties)
    lower = np.where(censored, np.nextafter(numbers, np.inf), numbers)
    points, masses, _, _ = turnbull(lower, np.where(censored, np.inf, numbers))
    known = ecdf(CensoredData(numbers[~censored], right=numbers[censored])).cdf
    below = [masses[points <= at].sum() for at in known.quantiles]
    inside = known.quantiles < numbers.max()  # what scipy leaves open we put on the last number
    np.testing.assert_allclose(np.array(below)[inside], known.probabilities[inside], atol=1e-6)
    assert masses.sum() == pytest.approx(1)


def likelihood(masses, members):
    return np.log(members @ masses).sum()


def test_intervals_give_the_distribution_of_largest_likelihood(rng):
    """Against many random distributions on a grid that has a point in every gap between ends."""
    centre, width = rng.normal(size=(2, 25))
    lower, upper = centre - np.abs(width), centre + np.abs(width)
    lower[:5], upper[5:9] = -np.inf, np.inf
    points, masses, start, stop = turnbull(lower, upper)
    members = (points >= lower[:, None]) & (points <= upper[:, None])
    for i, row in enumerate(members):
        assert np.flatnonzero(row).tolist() == list(range(start[i], stop[i]))
    best = likelihood(masses, members)
    ends = np.sort(np.concatenate([lower, upper]))
    ends = ends[np.isfinite(ends)]
    grid = np.unique([*points, *ends, *(ends[:-1] + ends[1:]) / 2])
    everywhere = (grid >= lower[:, None]) & (grid <= upper[:, None])
    gradient = (everywhere / (members @ masses)[:, None]).sum(axis=0) / len(lower)
    assert gradient.max() <= 1 + 1e-4  # moving mass to any place does not raise the likelihood
    assert best >= likelihood(np.full(len(points), 1 / len(points)), members)


def test_expectations_are_means_of_residuals_in_the_interval(rng):
    numbers, censored = right_censored(rng)
    lower, upper = numbers, np.where(censored, np.inf, numbers)
    predicted = rng.normal(size=len(numbers))
    found = expected_numbers(lower, upper, predicted)
    points, masses, _, _ = turnbull(lower - predicted, upper - predicted)
    for i in range(len(numbers)):
        inside = points >= lower[i] - predicted[i]
        mean = np.average(points[inside], weights=masses[inside])
        expected = predicted[i] + mean if censored[i] else numbers[i]
        assert found[i] == pytest.approx(expected, abs=1e-9)


def paper(X, numbers, censored, n_steps=200):
    """Buckley and James, word by word: lines fitted to numbers whose residuals are redistributed.

    The Kaplan-Meier weights of the residuals are multiplied out; the largest counts as exact.
    """
    design = np.column_stack([np.ones(len(X)), X])
    y = numbers.copy()
    for _ in range(n_steps):
        line = design @ np.linalg.lstsq(design, y)[0]
        residual = numbers - line
        order = np.argsort(residual)
        exact = ~censored
        exact[order[-1]] = True
        alive, mass = 1.0, np.zeros(len(y))
        for rank, i in enumerate(order):
            if exact[i]:
                mass[i] = alive / (len(y) - rank)
                alive -= mass[i]
        y = numbers.copy()
        for i in np.flatnonzero(censored):
            later = residual >= residual[i]
            y[i] = line[i] + np.average(residual[later], weights=mass[later])
    return y


def test_it_is_the_method_of_the_paper(rng):
    X = rng.normal(size=(50, 2))
    numbers = X @ [2.0, -1.0] + 0.5 * rng.normal(size=50)
    limit = rng.normal(1.0, 2.0, size=50)
    censored = numbers > limit
    numbers = np.minimum(numbers, limit)
    design = np.column_stack([np.ones(50), X])

    def predict(y):
        return design @ np.linalg.lstsq(design, y)[0]

    upper = np.where(censored, np.inf, numbers)
    result = buckley_james(predict, numbers, upper, max_iter=200, tol=1e-7)
    assert result.converged
    np.testing.assert_allclose(result.solution[0], paper(X, numbers, censored), atol=1e-3)


def test_an_oscillation_ends_between_its_solutions():
    """Each fit flips the predictions of the censored bag between two values."""
    calls = []

    def predict(y):
        calls.append(1)
        return np.array([0.0, 1.0, 2.0, 3.0 if len(calls) % 2 else 7.0])

    lower, upper = np.array([0.0, 1.0, 2.0, 1.0]), np.array([0.0, 1.0, 2.0, np.inf])
    result = buckley_james(predict, lower, upper, max_iter=50, tol=0.01)
    assert result.converged
    assert 3 < result.solution[0][3] < 7


def test_concordance_counts_pairs(rng):
    lower = rng.integers(5, size=30).astype(float)
    upper = lower + rng.choice([0.0, 1.0, np.inf], size=30)
    predicted = rng.integers(6, size=30).astype(float)
    pairs = [(i, j) for i in range(30) for j in range(30) if upper[i] < lower[j]]
    right = [np.heaviside(predicted[j] - predicted[i], 0.5) for i, j in pairs]
    assert concordance(lower, upper, predicted) == pytest.approx(np.mean(right))
    assert np.isnan(concordance(np.zeros(3), np.ones(3), predicted[:3]))


def test_concordance_is_harrells_c(rng):
    metrics = pytest.importorskip("sksurv.metrics", reason="scikit-survival is not installed")
    time, censored = right_censored(rng, ties=True)
    lower = np.where(censored, np.nextafter(time, np.inf), time)
    risk = rng.normal(size=len(time))
    expected = metrics.concordance_index_censored(~censored, time, risk)[0]
    found = concordance(lower, np.where(censored, np.inf, time), -risk)
    assert found == pytest.approx(expected)
