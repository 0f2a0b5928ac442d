"""Trees stored as arrays: equal to scikit-learn's, and checked when loaded from files."""

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
from sklearn.utils.estimator_checks import check_estimator

from bagwise.base._trees import RandomisedTrees, RandomisedTreesRegressor
from bagwise.compiled import forests


@pytest.fixture
def rows(rng):
    y = np.array(list("abc") * 20)
    return rng.normal(size=(60, 4)) + (y == "a")[:, None], y


@pytest.mark.parametrize("settings", [{}, {"min_samples_leaf": 3, "max_features": None}])
def test_the_trees_are_those_of_scikit_learn(rows, settings):
    X, y = rows
    ours = RandomisedTrees(12, random_state=0, **settings).fit(X[:40], y[:40])
    theirs = ExtraTreesClassifier(12, random_state=0, **settings).fit(X[:40], y[:40])
    expected = theirs.predict_proba(X)
    np.testing.assert_allclose(ours.predict_proba(X), expected, rtol=1e-12, atol=1e-15)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))


@pytest.mark.parametrize("settings", [{}, {"min_samples_leaf": 3, "max_features": None}])
def test_the_trees_of_numbers_are_those_of_scikit_learn(rows, settings):
    X, _ = rows
    y = X[:, 0] + X[:, 1] ** 2
    ours = RandomisedTreesRegressor(12, random_state=0, **settings).fit(X[:40], y[:40])
    theirs = ExtraTreesRegressor(12, random_state=0, **{"max_features": 1 / 3} | settings)
    expected = theirs.fit(X[:40], y[:40]).predict(X)
    np.testing.assert_allclose(ours.predict(X), expected, rtol=1e-12)


def test_the_mean_is_that_of_walks_down_the_trees(rng):
    # Two trees: 0 -> (1, 2), and 3 -> (4, 5 -> (6, 7)); leaves have the children 0.
    left = np.array([1, 0, 0, 4, 0, 6, 0, 0])
    right = np.array([2, 0, 0, 5, 0, 7, 0, 0])
    features = np.array([0, 0, 0, 1, 0, 0, 0, 0])
    thresholds = np.array([0.0, 0.0, 0.0, 0.5, 0.0, 1.0, 0.0, 0.0])
    values = np.arange(16.0).reshape(8, 2)
    X = rng.normal(size=(30, 2)).astype(np.float32)
    found = forests.mean_values(X, np.array([0, 3]), left, right, features, thresholds, values)
    for row, value in zip(X, found, strict=True):
        first = values[1 if row[0] <= 0 else 2]
        second = values[4] if row[1] <= 0.5 else values[6 if row[0] <= 1 else 7]
        np.testing.assert_allclose(value, (first + second) / 2)


def test_values_beyond_single_precision_are_compared_at_its_end(rows):
    X, y = rows
    X[:, 0] = np.where(y == "a", 1e300, -1e300)
    model = RandomisedTrees(12, random_state=0).fit(X, y)
    assert np.isfinite(model.predict_proba(X)).all()
    assert (model.predict(X) == "a").tolist() == (y == "a").tolist()


def test_a_single_class(rows):
    X, _ = rows
    model = RandomisedTrees(3, random_state=0).fit(X, np.zeros(60))
    np.testing.assert_array_equal(model.predict_proba(X), np.ones((60, 1)))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")  # without pandas
@pytest.mark.parametrize("cls", [RandomisedTrees, RandomisedTreesRegressor])
def test_scikit_learn_accepts_it(cls):
    check_estimator(cls(5, random_state=0))
