"""Cross-validation and held-out predictions, against scikit-learn's own."""

import numpy as np
import pytest
from sklearn.model_selection import (
    GroupKFold,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
)

from bagwise.classification import CitationKNN, SetKernelSVM, SingleInstanceClassifier
from bagwise.datasets import load_letter_carroll, make_bags
from bagwise.exceptions import BagwiseError, InputError
from bagwise.model_selection import HeldOut, compare, evaluate, held_out_predictions


@pytest.fixture
def data():
    return make_bags(n_bags=30, n_features=3, random_state=0)


@pytest.mark.parametrize("cv", [3, StratifiedKFold(3), GroupKFold(3)])
def test_scores_are_those_of_scikit_learn(data, cv):
    groups = np.arange(30) % 10
    grouped = groups if isinstance(cv, GroupKFold) else None
    found = evaluate(SetKernelSVM(), data.bags, data.y, cv=cv, groups=grouped)
    folds = StratifiedKFold(3, shuffle=True, random_state=0) if cv == 3 else cv
    settings = {"cv": folds, "groups": grouped}
    for name, scoring in {"accuracy": "accuracy", "AUC": "roc_auc"}.items():
        expected = cross_val_score(SetKernelSVM(), data.bags, data.y, scoring=scoring, **settings)
        np.testing.assert_allclose(found.scores[name], expected)
        assert found.mean(name) == pytest.approx(expected.mean())
        assert found.std(name) == pytest.approx(expected.std())
    assert found.name == "SetKernelSVM"
    assert len(found.seconds) == 3


def test_models_are_compared_on_the_same_folds_and_stay_unfitted(data):
    models = {"set kernel": SetKernelSVM(), "again": SetKernelSVM()}
    steps = []
    first, second = compare(models, data.bags, data.y, cv=3, after_fold=lambda: steps.append(1))
    assert (first.name, second.name) == ("set kernel", "again")
    assert first.scores == second.scores
    assert len(steps) == 6
    assert not hasattr(models["again"], "classes_")


@pytest.mark.parametrize("model", [SetKernelSVM(), SingleInstanceClassifier(), CitationKNN()])
def test_held_out_predictions_are_those_of_scikit_learn(data, model):
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    found = held_out_predictions(model, data.bags, data.y, cv=3)
    assert found.how == "3-fold cross-validation"
    fields = {"predict": found.predicted, "decision_function": found.scores}
    fields["predict_proba"] = found.probabilities
    for method, values in fields.items():
        if not hasattr(model, method):
            assert values is None
            continue
        expected = cross_val_predict(model, data.bags, data.y, cv=folds, method=method)
        np.testing.assert_allclose(values, expected)


def test_label_sets_have_a_column_per_label():
    data = load_letter_carroll(random_state=0)
    bags, sets = data.bags[:40], data.label_sets[:40]
    found = held_out_predictions(CitationKNN(), bags, sets, cv=2)
    assert found.predicted.shape == sets.shape
    assert set(evaluate(CitationKNN(), bags, sets, cv=2).scores) == {
        *("one-error", "coverage", "average precision"),
    }


def test_folds_that_leave_bags_out_have_no_held_out_predictions(data):
    folds = [(np.arange(15), np.arange(15, 29))]
    with pytest.raises(InputError, match="one test part"):
        held_out_predictions(SetKernelSVM(), data.bags, data.y, cv=folds)


def test_labels_of_another_length_are_refused(data):
    with pytest.raises(BagwiseError, match="29 labels for 30 bags"):
        evaluate(SetKernelSVM(), data.bags, data.y[:-1])


def test_an_error_in_a_fit_is_raised(data):
    with pytest.raises(ValueError, match="C"):
        evaluate(SetKernelSVM(C=-1), data.bags, data.y)


def test_what_is_held_out_has_a_name():
    assert HeldOut(np.array([0])).how == "held out"


@pytest.mark.parametrize("sets", [False, True])
def test_bags_without_a_label_have_no_held_out_prediction(sets):
    predicted = np.array([[1, 0], [0, 1]]) if sets else np.array([0, 1])
    whole = HeldOut(predicted, np.array([0.5, 2.0])).expand(np.array([True, False, True]))
    assert whole.predicted.tolist() == ([[1, 0], [-1, -1], [0, 1]] if sets else [0, None, 1])
    assert whole.scores.tolist() == [0.5, 0.0, 2.0]
