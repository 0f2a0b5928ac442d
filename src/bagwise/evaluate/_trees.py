"""Extremely randomised trees whose cost is the growth of the trees."""

from typing import Any, Self

import numpy as np
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.tree import ExtraTreeRegressor
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from bagwise._common.types import Array, Floats
from bagwise.base._parameters import with_parameters


@with_parameters
class Forest(RegressorMixin, BaseEstimator):
    """The trees of scikit-learn's `ExtraTreesRegressor`, at the cost of their growth.

    For each tree, scikit-learn makes a generator of random numbers and a clone, reads its settings
    and filters warnings. Together this takes twice as long as the growth of a small tree.

    Parameters
    ----------
    n_estimators : int, default=100
        Number of trees.
    max_features : float or "sqrt", default=1.0
        Share of the features, or their square root, among which a split is drawn.
    random_state : int, RandomState or None, default=None
        Draws the trees.

    Attributes
    ----------
    estimators_ : list of ExtraTreeRegressor
        The trees.
    """

    n_estimators: int = 100
    max_features: Any = 1.0
    random_state: Any = None

    def fit(self, X: Any, y: Array, sample_weight: Any = None) -> Self:
        """Grow the trees on rows `X` with numbers `y`."""
        X, y = validate_data(self, X, y, dtype=np.float32, order="C", multi_output=True)
        seeds = check_random_state(self.random_state).randint(2**31 - 1, size=self.n_estimators)
        drawn, self.estimators_ = np.random.RandomState(0), []
        with config_context(skip_parameter_validation=True):
            for seed in seeds.tolist():
                drawn.seed(seed)
                tree = ExtraTreeRegressor(max_features=self.max_features, random_state=drawn)
                tree.fit(X, y, sample_weight, check_input=False).random_state = seed
                self.estimators_.append(tree)
        return self

    def predict(self, X: Any) -> Floats:
        """Return the means of the trees, of the shape of the numbers."""
        rows = validate_data(self, X, reset=False, dtype=np.float32, order="C")
        total = np.sum([tree.tree_.predict(rows) for tree in self.estimators_], axis=0)
        return np.squeeze(total / len(self.estimators_), axis=-1)


@with_parameters
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

    n_estimators: int = 300
    random_state: Any = None

    def fit(self, X: Any, y: Array, sample_weight: Any = None) -> Self:
        """Grow the trees on rows `X` with classes `y`."""
        self.classes_, codes = np.unique(y, return_inverse=True)
        columns = np.arange(len(self.classes_)) if len(self.classes_) != 2 else np.array([1])
        indicator = (codes[:, None] == columns).astype(np.float64)
        forest = Forest(self.n_estimators, "sqrt", self.random_state)
        self.forest_ = forest.fit(X, indicator, sample_weight)
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Return the mean shares of the classes in the leaves, of shape (n_rows, n_classes)."""
        found = self.forest_.predict(X).reshape(len(X), -1)
        return np.hstack([1 - found, found]) if len(self.classes_) == 2 else found

    def predict(self, X: Any) -> Array:
        """Return the most probable class of each row."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]
