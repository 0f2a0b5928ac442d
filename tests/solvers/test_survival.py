"""Cox's partial likelihood and its friends: against loops, and against scikit-survival."""

import numpy as np
import pytest
from scipy.optimize import check_grad

from bagwise.solvers.survival import (
    concordance,
    cox_loss,
    cox_regression,
    cumulative_hazard,
    kaplan_meier,
    log_rank,
    step_values,
)
from cases import each


def example(n=40, seed=0, ties=True):
    """Risks, events and times, some of them tied; a bag is censored at the time of an event."""
    rng = np.random.default_rng(seed)
    risk = rng.normal(size=n)
    time = rng.exponential(1, n) * np.exp(-risk)
    time = np.ceil(4 * time) if ties else time
    return risk, rng.random(n) < 0.6, time


def structured(event, time):
    return np.array(list(zip(event, time, strict=True)), dtype=[("event", bool), ("time", float)])


def slow_cox(risk, event, time):
    """Efron's partial likelihood, word for word."""
    total = 0.0
    for t in np.unique(time[event]):
        dead, at_risk = event & (time == t), time >= t
        d = dead.sum()
        total -= risk[dead].sum()
        for k in range(d):
            total += np.log(np.exp(risk[at_risk]).sum() - k / d * np.exp(risk[dead]).sum())
    return total


@each("ties", [True, False])
def test_the_loss_is_efrons_likelihood(ties):
    risk, event, time = example(ties=ties)
    loss, _ = cox_loss(risk, event, time, np.ones(40))
    np.testing.assert_allclose(loss, slow_cox(risk, event, time), rtol=1e-10)


@each("fractions", [False, True])
def test_the_gradient_is_that_of_differences(fractions):
    risk, event, time = example()
    weight = np.random.default_rng(1).uniform(0.2, 3, 40) if fractions else np.ones(40)
    value = lambda r: cox_loss(r, event, time, weight)[0]  # noqa: E731
    slope = lambda r: cox_loss(r, event, time, weight)[1]  # noqa: E731
    assert check_grad(value, slope, risk) < 1e-4
    assert abs(slope(risk).sum()) < 1e-8  # a common factor of all risks does not matter


def test_a_weight_is_a_number_of_copies():
    risk, event, time = example()
    weight = np.random.default_rng(1).integers(0, 4, 40)
    again = np.repeat(np.arange(40), weight)
    copies = cox_loss(risk[again], event[again], time[again], np.ones(len(again)))
    weighted = cox_loss(risk, event, time, weight.astype(float))
    np.testing.assert_allclose(weighted[0], copies[0], rtol=1e-9)
    summed = np.bincount(again, copies[1], 40)
    np.testing.assert_allclose(weighted[1], summed, atol=1e-8)
    for ours, theirs in zip(
        cumulative_hazard(risk, event, time, weight.astype(float)),
        cumulative_hazard(risk[again], event[again], time[again]),
        strict=True,
    ):
        common = np.isin(np.unique(time), np.unique(time[again]))
        np.testing.assert_allclose(ours[common], theirs)


def test_extreme_risks_stay_finite():
    event, time = np.array([True, True, False]), np.array([1.0, 2.0, 3.0])
    loss, gradient = cox_loss(np.array([-1e4, 0.0, 1e4]), event, time, np.ones(3))
    assert np.isfinite(loss)
    assert np.isfinite(gradient).all()


@each("alpha", [0.1, 10.0])
def test_the_regression_is_that_of_scikit_survival(alpha):
    linear_model = pytest.importorskip("sksurv.linear_model")
    risk, event, time = example(80)
    X = np.random.default_rng(2).normal(size=(80, 5)) + risk[:, None]
    cox = linear_model.CoxPHSurvivalAnalysis(alpha=alpha, ties="efron", tol=1e-14)
    cox.fit(X, structured(event, time))
    how = {"reg": alpha, "max_iter": 1000, "tol": 1e-10}
    single = np.arange(81)
    found = cox_regression(X, single, event, time, np.ones(80), **how).solution[0]
    np.testing.assert_allclose(found, cox.coef_, atol=1e-6)
    times, hazard = cumulative_hazard(X @ found, event, time)
    np.testing.assert_allclose(times, cox.cum_baseline_hazard_.x)
    np.testing.assert_allclose(hazard, cox.cum_baseline_hazard_.y, rtol=1e-6)


def test_largest_rows_reach_a_local_optimum():
    """No small step, random or along the gradient, lowers the objective."""
    rng = np.random.default_rng(3)
    sizes = rng.integers(1, 5, 40)
    rows, offsets = rng.normal(size=(sizes.sum(), 3)), np.append(0, sizes.cumsum())
    _, event, time = example()
    how = {"reg": 1.0, "max_iter": 1000, "tol": 1e-8}
    start = rng.normal(size=3)
    found = cox_regression(rows, offsets, event, time, np.ones(40), start=start, **how)

    def value(w):
        risk = np.maximum.reduceat(rows @ w, offsets[:-1])
        return slow_cox(risk, event, time) + 0.5 * w @ w

    best = value(found.solution[0])
    assert best < value(start)
    steps = 1e-3 * rng.normal(size=(100, 3))
    assert min(value(found.solution[0] + step) for step in steps) > best - 1e-6
    assert (np.diff(found.objective_curve) <= 1e-12).all()


def test_kaplan_meier_by_hand_and_by_scikit_survival():
    event, time = np.array([True, False, True, True]), np.array([1.0, 1.0, 2.0, 3.0])
    times, left = kaplan_meier(event, time)
    assert times.tolist() == [1.0, 2.0, 3.0]
    np.testing.assert_allclose(left, [3 / 4, 3 / 8, 0])
    assert step_values(times, left, [0.5, 1.0, 2.5, 9.0]).tolist() == [1.0, 0.75, 0.375, 0.0]
    theirs = pytest.importorskip("sksurv.nonparametric").kaplan_meier_estimator
    _, event, time = example(100)
    for censoring in (False, True):
        found = kaplan_meier(event, time, censoring=censoring)
        np.testing.assert_allclose(found, theirs(event, time, reverse=censoring), atol=1e-12)


def test_concordance_counts_pairs():
    risk, event, time = example()
    risk = np.round(risk, 1)  # some are equal
    won = pairs = 0
    for i in range(40):
        for j in range(40):
            if event[i] and (time[i] < time[j] or (time[i] == time[j] and not event[j])):
                pairs += 1
                won += 1 if risk[i] > risk[j] else 0.5 if risk[i] == risk[j] else 0
    assert concordance(event, time, risk) == pytest.approx(won / pairs)
    assert concordance(event, time, np.exp(risk)) == pytest.approx(won / pairs)
    assert concordance(event, time, -risk) == pytest.approx(1 - won / pairs)
    assert np.isnan(concordance(np.zeros(40, bool), time, risk))


def test_the_log_rank_test_is_that_of_scikit_survival():
    compare = pytest.importorskip("sksurv.compare").compare_survival
    risk, event, time = example(90)
    thirds = np.digitize(risk, np.quantile(risk, [1 / 3, 2 / 3]))
    for group in (thirds, thirds > 0):
        expected = compare(structured(event, time), group)[1]
        assert log_rank(event, time, group) == pytest.approx(expected, rel=1e-9)
