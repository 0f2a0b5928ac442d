"""Base classes of the estimators: validation, scoring, kernel models, fitted state."""

from bagwise.base._estimator import (
    BagEstimator,
    BagTransformerMixin,
    RowEstimator,
    UnlabelledFit,
    WeightedFit,
    class_weights,
    fit_method,
)
from bagwise.base._order import in_canonical_order
from bagwise.base._scoring import (
    BagClassifierMixin,
    BagRegressorMixin,
    LinearBagClassifier,
    OneVsRestMixin,
    finite_scores,
    one_vs_rest_probabilities,
    softmax_probabilities,
)
