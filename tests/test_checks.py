"""Our checks fail if the property they check is violated."""

import numpy as np
import pytest

import checks
from bagwise import Bags
from bagwise.classification import CitationKNN, SetKernelSVM, SingleInstanceClassifier
from bagwise.embedding import BagDissimilarity
from bagwise.semi_supervised import WellSVMClassifier
from cases import each


class Writes(SingleInstanceClassifier):
    """Scales the table it predicts, in place."""

    def predict(self, X):
        if isinstance(X, Bags) and isinstance(X.instances, np.ndarray):
            X.instances[:] *= 2
        return super().predict(X)


class WritesSparse(SingleInstanceClassifier):
    def fit(self, X, y):
        if isinstance(X, Bags) and not isinstance(X.instances, np.ndarray):
            X.instances.data *= 2
        return super().fit(X, y)


class WritesLabels(SingleInstanceClassifier):
    def fit(self, X, y):
        super().fit(X, y)
        y[0] = y[1]
        return self


class PoolsOtherwise(SetKernelSVM):
    def decision_function(self, X):
        return super().decision_function(X) * (1 + 1e-6)


class FirstIsKey(SetKernelSVM):
    def key_instances(self, X, label=None):
        return np.zeros(len(self._check_bags(X)), dtype=np.int64)


class LastIsKey(CitationKNN):
    def key_instances(self, X, label=None):
        return self._check_bags(X).sizes - 1


class SingleIsOther(BagDissimilarity):
    """A transformer that gives another result in single precision."""

    def transform(self, X):
        bags = self._check_bags(X)
        return super().transform(X) * (2 if bags.instances.dtype == np.float32 else 1)


class WritesRows(WellSVMClassifier):
    def fit(self, X, y):
        super().fit(X, y)
        if isinstance(X, np.ndarray):
            X[0] = 0
        return self


@each(
    ("model", "check"),
    [
        (Writes(), checks.check_inputs_are_untouched),
        (WritesSparse(), checks.check_inputs_are_untouched),
        (WritesLabels(), checks.check_inputs_are_untouched),
        (PoolsOtherwise(), checks.check_pooled_instance_scores_are_the_bag_scores),
        (FirstIsKey(), checks.check_key_instances_decide),
        (LastIsKey(), checks.check_key_instances_decide),
        (SingleIsOther(), checks.check_single_precision),
        (WritesRows(), checks.check_rows_untouched),
    ],
)
def test_a_broken_estimator_is_found(model, check):
    # Bags expose their table read-only: numpy itself raises an error.
    with pytest.raises((AssertionError, ValueError)) as caught:
        check(model)
    assert caught.type is AssertionError or "read-only" in str(caught.value)
