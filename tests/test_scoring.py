"""Every public method of every estimator validates its input exactly once."""

import numpy as np
import pytest
from sklearn.utils._testing import set_random_state

from bagwise import classification
from bagwise.annotation._annotator import AnnotatorMixin
from bagwise.base import RowEstimator
from bagwise.validation import instances
from cases import each
from checks import example, example_for, row_example
from estimators import public_estimators, quick

OF_BAGS = (
    "decision_function",
    "key_instances",
    "predict",
    "predict_instances",
    "predict_proba",
    "predict_proba_instances",
    "score_instances",
    "transform",
)
WITH_LABELS = ("annotate", "annotate_proba", "log_likelihood")
CLASSIFIERS = [
    cls
    for cls in public_estimators()
    if cls.__module__.startswith(("bagwise.classification", "bagwise.annotation"))
]


@pytest.fixture
def calls(monkeypatch):
    """Count validations: `check_bags` and `check_rows` each read the range of values once."""
    found = []
    read = instances._value_range

    def counted(estimator):
        found.append(type(estimator).__name__)
        return read(estimator)

    monkeypatch.setattr(instances, "_value_range", counted)
    return found


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@each("cls", public_estimators())
def test_input_is_validated_once(cls, calls):
    if cls.__name__ == "InstanceTransformer":  # it accepts every range of values
        return
    model = quick(cls)
    set_random_state(model, 0)
    X, y = row_example() if isinstance(model, RowEstimator) else example_for(model, n_classes=3)
    calls.clear()
    model.fit(X, y)
    inner = ("Auto", "ORedClassifier", "BagConstrainedSpectralClustering", "CensoredBag", "Ordinal")
    if cls.__name__.startswith(inner):  # what they fit validates as well
        assert calls.count(type(model).__name__) == 1
        return
    assert calls == [type(model).__name__]
    for name in OF_BAGS + WITH_LABELS:
        if not hasattr(model, name):
            continue
        calls.clear()
        getattr(model, name)(X, *([y] if name in WITH_LABELS else []))
        assert calls == [type(model).__name__], name


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@each("cls", CLASSIFIERS)
def test_number_of_instance_scores_for_two_classes(cls):
    model = quick(cls)
    set_random_state(model, 0)
    bags, y = example()
    model.fit(bags, y)
    if hasattr(model, "score_instances"):
        by_class = isinstance(model, AnnotatorMixin | classification.PrimalDualMISVM)
        n = bags.n_instances
        assert model.score_instances(bags).shape == ((n, 2) if by_class else (n,))


def test_a_label_is_checked_before_key_instances_are_searched():
    from bagwise.classification import BagMarginSVM

    bags, y = example()
    model = BagMarginSVM().fit(bags, y)
    with pytest.raises(ValueError, match="nobody"):
        model.key_instances(bags, label="nobody")
    assert np.array_equal(model.key_instances(bags, label="q"), model.key_instances(bags))
