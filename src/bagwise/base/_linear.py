"""Base class of classifiers whose instance scores are linear in the features."""

import numpy as np

from bagwise._common.types import Array
from bagwise.bags import Bags
from bagwise.base._estimator import BagEstimator, WeightedFit
from bagwise.base._scoring import BagClassifierMixin
from bagwise.compute import to_numpy
from bagwise.compute.arrays import product


class LinearBagClassifier(WeightedFit, BagClassifierMixin, BagEstimator):
    """One hyperplane per class, or one for two classes; instance scores are pooled per bag.

    A subclass defines its parameters and `_solve`, which returns a `SolverResult` with the solution
    (coef, intercept), of shapes (n_columns, n_features) and (n_columns,).
    """

    instance_pooling = "max"
    _solution = ("coef_", "intercept_")

    def _score(self, bags: Bags) -> Array:
        scores = to_numpy(product(bags.instances, np.atleast_2d(self.coef_)))
        return scores + self.intercept_
