"""Extremely randomised trees whose cost is the growth of the trees."""

from functools import cache
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.tree import ExtraTreeRegressor
from sklearn.utils.validation import validate_data

from bagwise._common.types import Array, Floats


class Tree(ExtraTreeRegressor):
    """scikit-learn's tree; its signature is inspected once, not several times for each clone."""

    _get_param_names = staticmethod(cache(ExtraTreeRegressor._get_param_names))


class Forest(ExtraTreesRegressor):
    """scikit-learn's `ExtraTreesRegressor`, in which a clone costs less than a small tree."""

    def _validate_estimator(self) -> None:
        super()._validate_estimator()
        self.estimator_ = Tree()

    def predict(self, X: Any) -> Floats:
        """Return the means of the trees; scikit-learn checks `X` again in each tree."""
        how: Any = {"dtype": np.float32, "order": "C", "ensure_all_finite": "allow-nan"}
        rows = validate_data(self, X, reset=False, **how)
        total = np.sum([tree.tree_.predict(rows) for tree in self.estimators_], axis=0)
        return np.squeeze(total / len(self.estimators_), axis=-1)


class ExtraTrees(ClassifierMixin, BaseEstimator):
    """Extremely randomised trees, as scikit-learn's `ExtraTreesClassifier` grows them.

    The Gini impurity of a node is the sum of the variances of the 0/1 columns of the classes, so
    regression trees on these columns are the same trees. They skip the checks of labels that
    scikit-learn repeats for each tree, which take longer than the growth of a small tree.

    Parameters
    ----------
    n_estimators : int, default=300
        Number of trees.
    random_state : int, RandomState or None, default=None
        Draws the trees.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes.
    forest_ : Forest
        The trees.
    """

    def __init__(self, n_estimators: int = 300, random_state: Any = None) -> None:
        self.n_estimators = n_estimators
        self.random_state = random_state

    def fit(self, X: Any, y: Array, sample_weight: Any = None) -> Self:
        """Grow the trees on rows `X` with classes `y`."""
        self.classes_, codes = np.unique(y, return_inverse=True)
        columns = np.arange(len(self.classes_)) if len(self.classes_) != 2 else np.array([1])
        forest = Forest(self.n_estimators, max_features="sqrt", random_state=self.random_state)
        indicator = (codes[:, None] == columns).astype(np.float64)
        self.forest_ = forest.fit(
            X, np.squeeze(indicator, 1) if len(columns) == 1 else indicator, sample_weight
        )
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Return the mean shares of the classes in the leaves, of shape (n_rows, n_classes)."""
        found = self.forest_.predict(X).reshape(len(X), -1)
        return np.hstack([1 - found, found]) if len(self.classes_) == 2 else found

    def predict(self, X: Any) -> Array:
        """Return the most probable class of each row."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]
