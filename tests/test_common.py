"""scikit-learn's checks and ours, over every public estimator."""

import pytest
from sklearn.base import clone
from sklearn.utils._testing import set_random_state
from sklearn.utils.estimator_checks import parametrize_with_checks

from checks import OUR_CHECKS
from estimators import NEEDS, public_estimators

ESTIMATORS = [cls() for cls in public_estimators()]


@pytest.mark.parametrize("name", NEEDS)
def test_only_an_absent_extra_leaves_an_estimator_out(name):
    pytest.importorskip(NEEDS[name], reason=f"{name} is left out: it needs {NEEDS[name]}")
    assert name in {type(estimator).__name__ for estimator in ESTIMATORS}


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("check", OUR_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_bagwise(estimator, check):
    model = clone(estimator)
    set_random_state(model, 0)
    check(model)
