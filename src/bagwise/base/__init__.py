"""What estimators share: validation, the scoring template, kernel machines, declared state."""

from bagwise.base._canonical_order import in_canonical_order
from bagwise.base._estimator import BagEstimator, RowEstimator, fit_method, with_known_labels
from bagwise.base._one_vs_rest import OneVsRestMixin
from bagwise.base._scoring import (
    BagClassifierMixin,
    finite_scores,
    one_vs_rest_probabilities,
    softmax_probabilities,
)
