"""What estimators share: validation, the scoring template, kernel machines, declared state."""

from bagwise.base._canonical_order import in_canonical_order
from bagwise.base._estimator import BagEstimator, RowEstimator, fit_method
from bagwise.base._scoring import (
    BagClassifierMixin,
    finite_scores,
    one_vs_rest_probabilities,
    softmax_probabilities,
)

__all__ = [
    "BagClassifierMixin",
    "BagEstimator",
    "RowEstimator",
    "finite_scores",
    "fit_method",
    "in_canonical_order",
    "one_vs_rest_probabilities",
    "softmax_probabilities",
]
