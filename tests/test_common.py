"""scikit-learn's checks and ours, over every public estimator."""

import pytest
from sklearn.base import clone
from sklearn.utils import estimator_checks
from sklearn.utils._testing import set_random_state
from sklearn.utils.estimator_checks import parametrize_with_checks

from bagwise.base import RowEstimator
from checks import OUR_CHECKS, ROW_CHECKS
from estimators import NEEDS, public_estimators, quick

ESTIMATORS = [quick(cls) for cls in public_estimators()]
ON_ROWS = [estimator for estimator in ESTIMATORS if isinstance(estimator, RowEstimator)]
ON_BAGS = [estimator for estimator in ESTIMATORS if not isinstance(estimator, RowEstimator)]

# Checks that repeat the fits of another check, with another container of the same data.
AGAIN = {
    "check_estimator_sparse_matrix",
    "check_classifiers_train(readonly_memmap=True,X_dtype=float32)",
}


@pytest.fixture(autouse=True)
def minus_one_is_unlabelled(monkeypatch):
    """Exempt our semi-supervised classifiers from the class -1, as scikit-learn exempts its own.

    One check fits a classifier with y in {-1, 1}; scikit-learn skips that step for its three
    semi-supervised classifiers, by a fixed list of names.
    """
    choose = estimator_checks._choose_check_classifiers_labels
    ours = {type(e).__name__ for e in ESTIMATORS if ".semi_supervised." in type(e).__module__}

    def labels(name, y, y_names):
        return choose("SelfTrainingClassifier" if name in ours else name, y, y_names)

    monkeypatch.setattr(estimator_checks, "_choose_check_classifiers_labels", labels)


@pytest.mark.parametrize("name", NEEDS)
def test_only_an_absent_extra_leaves_an_estimator_out(name):
    pytest.importorskip(NEEDS[name], reason=f"{name} is left out: it needs {NEEDS[name]}")
    assert name in {type(estimator).__name__ for estimator in ESTIMATORS}


def scikit_learn_checks(estimators):
    """Pairs of estimator and check; in a list, since pytest 9 deprecates older generators."""
    mark = parametrize_with_checks(estimators).mark
    names, pairs = mark.args
    identifier = mark.kwargs["ids"]
    cases = [
        pytest.param(*pair, marks=[pytest.mark.slow] if identifier(pair[1]) in AGAIN else [])
        for pair in pairs
    ]
    return pytest.mark.parametrize(names, cases, **mark.kwargs)


# Rows are bags of one instance: with several labels they are left out, with a warning.
@pytest.mark.filterwarnings("ignore:.* bags are left out:UserWarning")
# On random labels no model may be better than the share of positive bags.
@pytest.mark.filterwarnings("ignore:\\w+ learned nothing")
@scikit_learn_checks(ESTIMATORS)
def test_scikit_learn(estimator, check):
    check(estimator)


# On random labels no weights may be the best ones.
@pytest.mark.filterwarnings("ignore:\\w+ learned nothing")
@pytest.mark.parametrize("check", OUR_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("estimator", ON_BAGS, ids=lambda e: type(e).__name__)
def test_bagwise(estimator, check):
    model = clone(estimator)
    set_random_state(model, 0)
    check(model)


@pytest.mark.parametrize("check", ROW_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("estimator", ON_ROWS, ids=lambda e: type(e).__name__)
def test_rows(estimator, check):
    model = clone(estimator)
    set_random_state(model, 0)
    check(model)
