"""Measures of grades, of numbers in intervals and of several numbers."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import norm
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.metrics import r2_score
from sklearn.model_selection import KFold
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline

from bagwise.classification import OrdinalBagClassifier, SingleInstanceClassifier
from bagwise.datasets import make_bags
from bagwise.embedding import BagStatistics
from bagwise.evaluate import compare, evaluate, held_out_predictions
from bagwise.evaluate._measures import grade_measures, interval_measures
from bagwise.exceptions import LabelError
from bagwise.labels import Intervals
from bagwise.regression import CensoredBagRegressor, SetKernelRegressor

BAGS = make_bags(n_bags=60, random_state=0).bags
NUMBERS = np.array([bag[:, 0].mean() for bag in BAGS])


def test_grade_measures_by_hand(rng):
    order = ["low", "mid", "high", "top"]
    truth, predicted = rng.integers(4, size=(2, 50))
    found = grade_measures(np.array(order)[truth], np.array(order)[predicted], order)
    observed, expected = np.zeros((4, 4)), np.zeros((4, 4))
    for a, b in zip(truth, predicted, strict=True):
        observed[a, b] += 1 / 50
    expected = np.outer(observed.sum(axis=1), observed.sum(axis=0))
    weights = np.subtract.outer(np.arange(4), np.arange(4)) ** 2
    kappa = 1 - (weights * observed).sum() / (weights * expected).sum()
    assert found["quadratic kappa"] == pytest.approx(kappa)
    assert found["MAE"] == pytest.approx(np.abs(truth - predicted).mean())
    assert found["within one"] == pytest.approx((np.abs(truth - predicted) < 2).mean())
    assert np.isnan(grade_measures(truth[:1], truth[:1], range(4))["quadratic kappa"])


def test_the_log_likelihood_is_that_of_normal_errors(rng):
    truth, predicted = rng.normal(size=(2, 40))
    lower = np.where(np.arange(40) % 3 == 0, -np.inf, truth - (np.arange(40) % 5 == 0))
    upper = np.where(np.arange(40) % 4 == 1, np.inf, truth)
    known = Intervals(lower, upper)

    def loss(log_scale):
        scale, errors = np.exp(log_scale[0]), (lower - predicted, upper - predicted)
        inside = norm.cdf(errors[1] / scale) - norm.cdf(errors[0] / scale)
        density = norm.pdf(np.where(known.exact, errors[0], 0) / scale) / scale
        return -np.log(np.where(known.exact, density, inside)).mean()

    best = minimize(loss, [0.0], method="Nelder-Mead").fun
    assert interval_measures(known, predicted)["log-likelihood"] == pytest.approx(-best, abs=1e-4)
    found = interval_measures(known, predicted)
    exact = np.flatnonzero(known.exact)
    assert found["MAE"] == pytest.approx(np.abs(truth - predicted)[exact].mean())
    others = [i for i in range(40) if i not in exact]
    inside = [lower[i] <= predicted[i] <= upper[i] for i in others]
    assert found["within bounds"] == pytest.approx(np.mean(inside))
    far = interval_measures(Intervals([0, 50.0], [0, np.inf]), np.array([0.0, 0.0]))
    assert np.isfinite(far["log-likelihood"])


def test_grades_are_evaluated_beside_plain_classifiers():
    y = np.digitize(NUMBERS, np.quantile(NUMBERS, [0.3, 0.6, 0.9]))
    names = np.array(["none", "mild", "severe", "fatal"])[y]
    inner = SingleInstanceClassifier(pooling="mean")
    models = {"ordinal": OrdinalBagClassifier(inner), "plain": inner}
    found = compare(models, BAGS, y, cv=3)
    assert found.measures[:3] == ["quadratic kappa", "MAE", "within one"]
    assert found.known_measure() == "quadratic kappa"
    assert all(each.mean("MAE") < 1.5 for each in found)
    order = ["none", "mild", "severe", "fatal"]
    named = evaluate(OrdinalBagClassifier(inner, ordered_classes=order), BAGS, names, cv=3)
    assert named.mean("quadratic kappa") == pytest.approx(found[0].mean("quadratic kappa"))
    assert "quadratic kappa" not in evaluate(inner, BAGS, y, cv=3).scores


def test_intervals_are_evaluated():
    limit = np.quantile(NUMBERS, 0.3)
    cells = [f"<{limit}" if v < limit else str(v) for v in NUMBERS]
    known = Intervals.from_strings(cells)
    for y in (cells, known):
        found = evaluate(CensoredBagRegressor(), BAGS, y, cv=3)
        assert list(found.scores) == ["C index", "log-likelihood", "MAE", "within bounds"]
        assert found.mean("C index") > 0.7
    held = held_out_predictions(CensoredBagRegressor(), BAGS, known, cv=3)
    assert interval_measures(known, held.predicted)["C index"] > 0.7
    exact = evaluate(CensoredBagRegressor(), BAGS, NUMBERS, cv=3)
    plain = evaluate(SetKernelRegressor(), BAGS, NUMBERS, cv=3)
    np.testing.assert_allclose(exact.scores["R2"], plain.scores["R2"])
    with pytest.raises(LabelError, match="CensoredBagRegressor"):
        evaluate(SetKernelRegressor(), BAGS, known, cv=3)


def test_several_numbers_have_measures_each():
    y = np.column_stack([NUMBERS, NUMBERS**2])
    trees = make_pipeline(BagStatistics(), ExtraTreesRegressor(20, random_state=0))
    models = {"trees": trees, "nsk": MultiOutputRegressor(SetKernelRegressor())}
    found = compare(models, BAGS, y, cv=KFold(3))
    assert found.measures[:4] == ["R2", "MAE", "Spearman", "R2 of 0"]
    for model in found:
        np.testing.assert_allclose(
            model.scores["R2"], np.mean([model.scores[f"R2 of {k}"] for k in (0, 1)], axis=0)
        )
    train, test = next(KFold(3).split(y))
    alone = SetKernelRegressor().fit(BAGS[train], y[train, 1]).predict(BAGS[test])
    assert found[1].scores["R2 of 1"][0] == pytest.approx(r2_score(y[test, 1], alone))
    (difference,) = found.differences("MAE of 1")
    assert difference.mean == pytest.approx(found[0].mean("MAE of 1") - found[1].mean("MAE of 1"))
