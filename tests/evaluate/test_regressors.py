"""Cross-validation of regressors: a number per bag."""

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.base import clone
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import Ridge
from sklearn.metrics import mean_absolute_error, r2_score
from sklearn.model_selection import KFold, cross_val_score
from sklearn.pipeline import make_pipeline

from bagwise import Bags
from bagwise.classification import SetKernelSVM
from bagwise.embedding import BagStatistics
from bagwise.evaluate import compare, evaluate, held_out_predictions
from bagwise.evaluate._evaluation import make_folds
from bagwise.evaluate._measures import number_measures
from bagwise.exceptions import InputError


@pytest.fixture
def data(rng):
    arrays = [rng.normal(size=(rng.integers(1, 5), 3)) + rng.normal(size=3) for _ in range(40)]
    return Bags.from_arrays(arrays), np.array([X[:, 0].mean() for X in arrays])


RIDGE = make_pipeline(BagStatistics(), Ridge())


def test_the_scores_are_those_of_a_loop_over_the_folds(data):
    bags, y = data
    folds = list(KFold(4, shuffle=True, random_state=0).split(y))
    found = evaluate(RIDGE, bags, y, cv=4)
    for k, (train, test) in enumerate(folds):
        predicted = clone(RIDGE).fit(bags[train], y[train]).predict(bags[test])
        assert found.scores["R2"][k] == pytest.approx(r2_score(y[test], predicted))
        assert found.scores["MAE"][k] == pytest.approx(mean_absolute_error(y[test], predicted))
        expected = spearmanr(y[test], predicted).statistic
        assert found.scores["Spearman"][k] == pytest.approx(expected)
    scored = cross_val_score(RIDGE, bags, y, cv=KFold(4, shuffle=True, random_state=0))
    np.testing.assert_allclose(found.scores["R2"], scored)


def test_groups_are_whole(data):
    bags, y = data
    groups = np.arange(40) // 4
    for train, test in make_folds(y, n_folds=5, groups=groups, numbers=True):
        assert not set(groups[train]) & set(groups[test])
    found = held_out_predictions(RIDGE, bags, y, cv=5, groups=groups)
    assert found.predicted.shape == (40,)
    assert found.classes is None
    assert found.scores is None


def test_models_are_compared_by_r2(data):
    bags, y = data
    found = compare({"ridge": RIDGE, "mean": DummyRegressor()}, bags, y)
    (difference,) = found.differences()
    assert (difference.measure, difference.name) == ("R2", "mean")
    assert difference.mean < 0
    (difference,) = found.differences("MAE")
    assert difference.mean < 0  # a larger error is worse
    assert list(compare({"ridge": RIDGE}, bags, y, scoring=["MAE", "neg_max_error"])[0].scores) == [
        "MAE", "neg_max_error",
    ]  # fmt: skip


def test_undefined_measures_are_nan():
    assert np.isnan(number_measures(np.array([1.0]), np.array([2.0]))["R2"])
    constant = number_measures(np.array([1.0, 2.0]), np.array([2.0, 2.0]))
    assert np.isnan(constant["Spearman"])
    assert constant["MAE"] == 0.5
    assert np.isnan(number_measures(np.full(3, 1.0), np.arange(3.0))["R2"])


def test_wrong_input_is_refused(data):
    bags, y = data
    with pytest.raises(InputError, match="some models are regressors"):
        compare({"ridge": RIDGE, "svm": SetKernelSVM()}, bags, y)
    with pytest.raises(InputError, match="Unknown score 'AUC' for numbers"):
        evaluate(RIDGE, bags, y, scoring="AUC")
