"""scikit-learn's checks and ours, over every public estimator."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from estimators import public_estimators

ESTIMATORS = [cls() for cls in public_estimators()]


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn(estimator, check):
    check(estimator)
