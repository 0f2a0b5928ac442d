"""Extremely randomised trees are those of scikit-learn."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

from bagwise.evaluate._trees import ExtraTrees, Forest


def drawn(n_classes, seed):
    # One feature is drawn per node, so that no two features tie.
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 3))
    y = np.digitize(X[:, 0] + rng.normal(size=60), np.linspace(-0.5, 0.5, n_classes - 1))
    weight = rng.integers(1, 3, size=60)  # sums without rounding: a pure node has impurity 0
    return X, y, rng.normal(size=(200, 3)), weight


@pytest.mark.parametrize("n_classes", [2, 3])
def test_trees_of_classes_are_those_of_scikit_learn(n_classes):
    for seed in range(3):
        X, y, new, weight = drawn(n_classes, seed)
        names = np.array(["c", "a", "b"])[y]
        for sample_weight in (None, weight):
            ours = ExtraTrees(20, random_state=seed).fit(X, names, sample_weight)
            theirs = ExtraTreesClassifier(20, random_state=seed).fit(X, names, sample_weight)
            assert ours.classes_.tolist() == theirs.classes_.tolist()
            np.testing.assert_allclose(
                ours.predict_proba(new), theirs.predict_proba(new), atol=1e-12
            )
            assert np.mean(ours.predict(new) == theirs.predict(new)) > 0.9  # ties between classes


def test_forests_are_those_of_scikit_learn():
    X, y, new, weight = drawn(3, 0)
    for model in (ExtraTreesRegressor, Forest):
        assert clone(model(5)).n_estimators == 5
    ours, theirs = (
        model(20, max_features=1 / 3, random_state=0).fit(X, y + X[:, 1], weight)
        for model in (Forest, ExtraTreesRegressor)
    )
    np.testing.assert_allclose(ours.predict(new), theirs.predict(new), atol=1e-12)
