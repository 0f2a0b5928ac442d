"""AutoBagRegressor: its weights, its leaderboard, its folds."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline

from bagwise import Bags
from bagwise.auto import AutoBagRegressor
from bagwise.embedding import BagStatistics
from bagwise.evaluate import evaluate
from bagwise.exceptions import InputError, LabelError
from bagwise.persistence import load_model, save_model
from bagwise.regression import SetKernelRegressor
from bagwise.solvers.stacking import fit_linear_stack

FEW = ["pooled-ridge", "nsk", "minimax"]


def example(n_bags=40, seed=0):
    """Bags whose number is the mean of the first feature plus the largest of the second."""
    rng = np.random.default_rng(seed)
    arrays = [rng.normal(size=(rng.integers(1, 6), 3)) + rng.normal(size=3) for _ in range(n_bags)]
    y = np.array([X[:, 0].mean() + X[:, 1].max() for X in arrays])
    return Bags.from_arrays(arrays), 5 + 2 * y + 0.2 * rng.normal(size=n_bags)


def held_out(n=60, seed=0):
    """Predictions of a good model, a worse one, one that knows nothing and one that errs."""
    rng = np.random.default_rng(seed)
    y = 3 + 2 * rng.normal(size=n)
    noise = rng.normal(size=(n, 4))
    return np.column_stack([y, y, 0 * y + 3, -y]) + noise * [0.5, 1.5, 1.0, 1.0], y


@pytest.mark.parametrize("reg", [0.0, 10.0])
@pytest.mark.parametrize("shrunk", [1.0, 0.5])  # of predictions that are halved the sum exceeds 1
def test_the_weights_minimise_the_stated_objective(reg, shrunk):
    predictions, y = held_out()
    predictions = shrunk * predictions

    def objective(parameters):
        weights, intercept = parameters[:4], parameters[4]
        errors = y - intercept - predictions @ weights
        return errors @ errors + reg * y.var() * np.sum((weights - 0.25) ** 2)

    weights, intercept = fit_linear_stack(predictions, y, reg=reg)
    assert (weights >= 0).all()
    assert weights.sum() <= 1 + 1e-9
    assert (weights.sum() > 1 - 1e-9) == (shrunk < 1)
    bounds = [(0, None)] * 4 + [(None, None)]
    at_most = {"type": "ineq", "fun": lambda parameters: 1 - parameters[:4].sum()}
    start = np.append(np.full(4, 0.25), 0.0)
    options = {"ftol": 1e-12, "maxiter": 1000}
    best = minimize(objective, start, bounds=bounds, constraints=at_most, options=options)
    found = np.append(weights, intercept)
    np.testing.assert_allclose(found, best.x, atol=1e-3)
    assert objective(found) <= best.fun * (1 + 1e-7)
    assert weights.argmax() == 0


def test_units_of_the_target_do_not_change_the_weights():
    predictions, y = held_out()
    weights, intercept = fit_linear_stack(predictions, y, reg=10.0)
    others, moved = fit_linear_stack(1e3 * predictions + 7, 1e3 * y + 7, reg=10.0)
    np.testing.assert_allclose(others, weights, rtol=1e-9)
    assert moved == pytest.approx(1e3 * intercept + 7 - 7 * weights.sum())
    weights, intercept = fit_linear_stack(predictions, np.full(60, 4.0), reg=10.0)
    assert np.isfinite(weights).all()


def test_the_prediction_is_the_weighted_sum():
    bags, y = example()
    model = AutoBagRegressor(candidates=FEW, random_state=0).fit(bags, y)
    seen = model.scaler_.transform(bags)
    parts = np.column_stack([found.predict(seen) for found in model.estimators_])
    expected = parts @ model.weights_ + model.intercept_
    np.testing.assert_allclose(model.predict(bags), expected, rtol=1e-10)
    best = model.best_estimator_.predict(bags)
    np.testing.assert_allclose(best, parts[:, model.best_index_], rtol=1e-10)


@pytest.mark.parametrize("metric", ["r2", "mae", "spearman"])
def test_the_leaderboard_is_sorted_by_the_metric(metric):
    bags, y = example()
    names = ["pooled-ridge", "minimax"]
    model = AutoBagRegressor(metric=metric, candidates=names, cv=3, random_state=0).fit(bags, y)
    table = model.leaderboard_
    assert sorted(table["method"]) == ["ensemble", *sorted(names)]
    ordered = np.sort(table[metric])
    np.testing.assert_array_equal(table[metric], ordered if metric == "mae" else ordered[::-1])


def test_all_default_candidates_run_learn_and_are_saved(tmp_path):
    bags, y = example(60)
    test, truth = example(60, seed=1)
    model = AutoBagRegressor(cv=2, random_state=0).fit(bags, y)
    assert not any(model.leaderboard_["skipped"])
    assert len(model.leaderboard_["method"]) == 8
    assert model.score(test, truth) > 0.7
    pytest.importorskip("skops")
    save_model(model, tmp_path / "m.skops")
    again = load_model(tmp_path / "m.skops")[0]
    np.testing.assert_array_equal(again.predict(test), model.predict(test))


def test_groups_stay_together_and_regressors_of_ones_own():
    bags, y = example(30)
    groups = np.arange(30) // 3
    mine = {"mine": make_pipeline(BagStatistics(("mean",)), Ridge())}
    model = AutoBagRegressor(candidates=mine, cv=20, random_state=0).fit(bags, y, groups=groups)
    assert model.names_ == ["mine"]
    result = evaluate(model, bags, y, groups=groups, cv=3)
    assert sorted(result.scores) == ["MAE", "R2", "Spearman"]


@pytest.mark.parametrize(
    ("candidates", "message"),
    [
        (["nks"], "Unknown method 'nks'"),
        ({"mine": make_pipeline(BagStatistics(), LogisticRegression())}, "expected a regressor"),
    ],
)
def test_wrong_candidates_are_refused(candidates, message):
    with pytest.raises(InputError, match=message):
        AutoBagRegressor(candidates=candidates).fit(*example(10))


def test_several_targets_are_several_models_on_the_same_folds():
    bags, number = example()
    y = np.column_stack([number, [bag[:, 2].mean() for bag in bags]])
    how = {"candidates": ["pooled-ridge", "nsk"], "cv": 2, "random_state": 0}
    both = AutoBagRegressor(**how).fit(bags, y)
    assert both.predict(bags).shape == (40, 2)
    assert both.predict_interval(bags, 0.8).shape == (40, 2, 2)
    for k in range(2):
        one = AutoBagRegressor(**how).fit(bags, y[:, k])
        np.testing.assert_allclose(both.predict(bags)[:, k], one.predict(bags), rtol=1e-6)
        own = both.predict_interval(bags, 0.8)[:, k]
        np.testing.assert_allclose(own, one.predict_interval(bags, 0.8), rtol=1e-6)
    with pytest.raises(LabelError, match=r"y has 2 columns: .* AutoBagRegressor"):
        SetKernelRegressor().fit(bags, y)
