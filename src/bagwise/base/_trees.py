"""Extremely randomised trees whose model files can be validated."""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, is_regressor
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
from sklearn.utils.validation import check_is_fitted, validate_data

from bagwise import compiled
from bagwise._common.types import Array
from bagwise._common.types import Floats as FloatArray

_LARGEST = np.finfo(np.float32).max  # trees compare values in single precision


class _Forest(BaseEstimator):
    """Extremely randomised trees as arrays; a subclass sets the forest of scikit-learn.

    A model file with trees of scikit-learn is not trusted, because they index memory unchecked.
    The arrays of this class are checked against their declaration when a file is loaded.

    Parameters
    ----------
    n_estimators : int, default=300
        Number of trees.
    max_features : str, int, float or None, default="sqrt"
        Number of columns considered for each split, as in scikit-learn.
    min_samples_leaf : int or float, default=1
        Minimum number of rows in a leaf.
    n_jobs : int, default=None
        Number of trees grown at the same time.
    random_state : int, RandomState instance or None, default=None
        Seed of the trees.

    Attributes
    ----------
    n_features_in_ : int
        Number of columns.
    left_, right_, features_, thresholds_ : ndarray of shape (n_nodes,)
        The nodes of all trees: a row goes left if its feature is at most the threshold. The
        children of a leaf are 0.
    values_ : ndarray of shape (n_nodes, n_outputs)
        The values of each node.
    roots_ : ndarray of shape (n_estimators,)
        The first node of each tree.
    """

    _forest: Any  # the class of scikit-learn

    def __init__(
        self,
        n_estimators: int = 300,
        *,
        max_features: str | float | None = "sqrt",
        min_samples_leaf: float = 1,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.max_features = max_features
        self.min_samples_leaf = min_samples_leaf
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Grow the trees.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            The rows.
        y : array-like of shape (n_rows,)
            The labels, or the numbers, of the rows.
        sample_weight : array-like of shape (n_rows,), default=None
            Weights of the rows.

        Returns
        -------
        self
        """
        numbers = is_regressor(self)
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=numbers)
        forest = self._forest(**self.get_params()).fit(_single(X), y, sample_weight)
        trees = [estimator.tree_ for estimator in forest.estimators_]
        sizes = np.array([tree.node_count for tree in trees])
        self.roots_ = np.cumsum(sizes) - sizes
        self.left_ = self._join([tree.children_left for tree in trees])
        self.right_ = self._join([tree.children_right for tree in trees])
        self.features_ = np.concatenate([tree.feature for tree in trees]).clip(min=0)
        self.thresholds_ = np.concatenate([tree.threshold for tree in trees])
        self.values_ = np.concatenate([tree.value[:, 0] for tree in trees])
        if not numbers:
            self.classes_ = forest.classes_
        return self

    def _mean_values(self, X: Any) -> FloatArray:
        """Mean over the trees of the values of the leaves, of shape (n_rows, n_outputs)."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        nodes = (self.left_, self.right_, self.features_, self.thresholds_, self.values_)
        return compiled.forests.mean_values(_single(X), self.roots_, *nodes)

    def _join(self, children: list[Array]) -> Array:
        """Shift the children of each tree by its root; the -1 of a leaf becomes 0."""
        moved = zip(children, self.roots_, strict=True)
        return np.concatenate([np.where(c < 0, 0, c + root) for c, root in moved])


class RandomisedTrees(ClassifierMixin, _Forest):
    """Extremely randomised trees on rows: scikit-learn's `ExtraTreesClassifier`, kept as arrays.

    Parameters and attributes as in `_Forest`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes; ``values_`` holds their shares among the training rows of each node.
    """

    _forest = ExtraTreesClassifier

    def predict_proba(self, X: Any) -> FloatArray:
        """Mean shares of the classes over the trees, of shape (n_rows, n_classes)."""
        return self._mean_values(X)

    def predict(self, X: Any) -> Array:
        """Predict the class of each row, of shape (n_rows,)."""
        places = self.predict_proba(X).argmax(axis=1)
        return self.classes_[places]


class RandomisedTreesRegressor(RegressorMixin, _Forest):
    """Extremely randomised trees for regression: scikit-learn's `ExtraTreesRegressor`, as arrays.

    By default a split is chosen from a third of the columns, Breiman's choice for regression.
    """

    _forest = ExtraTreesRegressor

    def __init__(
        self,
        n_estimators: int = 300,
        *,
        max_features: str | float | None = 1 / 3,
        min_samples_leaf: float = 1,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            n_estimators,
            max_features=max_features,
            min_samples_leaf=min_samples_leaf,
            n_jobs=n_jobs,
            random_state=random_state,
        )

    def predict(self, X: Any) -> FloatArray:
        """Predict the number of each row, of shape (n_rows,)."""
        return self._mean_values(X)[:, 0]


def _single(X: FloatArray) -> Array:
    return X.clip(-_LARGEST, _LARGEST).astype(np.float32)
