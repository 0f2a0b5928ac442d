"""Cross-validation and held-out predictions, against scikit-learn's."""

import numpy as np
import pytest
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.model_selection import (
    GroupKFold,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
)
from sklearn.preprocessing import StandardScaler

from bagwise import Bags
from bagwise.classification import CitationKNN, SetKernelSVM, SingleInstanceClassifier
from bagwise.datasets import load_letter_carroll, make_bags
from bagwise.evaluate import HeldOut, compare, evaluate, held_out_predictions
from bagwise.evaluate._baselines import LabelFrequencies
from bagwise.exceptions import InputError
from bagwise.preprocessing import InstanceTransformer, make_bag_pipeline


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


class Grouped(ClassifierMixin, BaseEstimator):
    """Keeps the groups that its `fit` got."""

    seen: list = []

    def fit(self, X, y, *, groups=None):
        self.classes_ = np.unique(y)
        self.seen.append(groups)
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[0])


@pytest.mark.parametrize("routing", [False, True])
@pytest.mark.parametrize("judge", [evaluate, held_out_predictions])
def test_a_model_that_takes_groups_has_those_of_its_training_bags(data, judge, routing):
    groups = np.arange(30) % 10
    Grouped.seen.clear()
    with sklearn.config_context(enable_metadata_routing=routing):
        model = Grouped().set_fit_request(groups=True) if routing else Grouped()
        pipeline = make_bag_pipeline(InstanceTransformer(StandardScaler()), model)
        judge(pipeline, data.bags, data.y, cv=3, groups=groups)
        judge(SetKernelSVM(), data.bags, data.y, cv=3, groups=groups)  # takes none
    assert len(Grouped.seen) == 3
    for seen in Grouped.seen:
        held_out = np.setdiff1d(groups, seen)
        np.testing.assert_array_equal(seen, groups[~np.isin(groups, held_out)])
        assert len(held_out)


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
        *("one-error", "coverage", "average precision", "log loss"),
    }


def test_folds_that_leave_bags_out_have_no_held_out_predictions(data):
    folds = [(np.arange(15), np.arange(15, 29))]
    with pytest.raises(InputError, match="one test part"):
        held_out_predictions(SetKernelSVM(), data.bags, data.y, cv=folds)


def test_an_error_in_a_fit_is_raised(data):
    with pytest.raises(ValueError, match="C"):
        evaluate(SetKernelSVM(C=-1), data.bags, data.y)


@pytest.mark.parametrize("sets", [False, True])
def test_bags_without_a_label_have_no_held_out_prediction(sets):
    predicted = np.array([[1, 0], [0, 1]]) if sets else np.array([0, 1])
    whole = HeldOut(predicted, np.array([0.5, 2.0])).expand(np.array([True, False, True]))
    assert whole.predicted.tolist() == ([[1, 0], [-1, -1], [0, 1]] if sets else [0, None, 1])
    assert whole.scores.tolist() == [0.5, 0.0, 2.0]


@pytest.fixture
def three_labels(rng):
    """30 bags of the labels a, b, c, and two folds: the first has no b in its training part."""
    y = np.array(list("abc") * 10)
    bags = [rng.normal(size=(2, 3)) + 3 * np.eye(3)["abc".index(label)] for label in y]
    first = np.flatnonzero((y == "b") | (np.arange(30) < 6))
    second = np.setdiff1d(np.arange(30), first)
    return bags, y, [(second, first), (first, second)]


@pytest.mark.parametrize("model", [SetKernelSVM(), SingleInstanceClassifier()])
def test_scores_of_folds_without_a_label_are_placed_by_label(three_labels, model):
    bags, y, folds = three_labels
    found = held_out_predictions(model, bags, y, cv=folds)
    assert found.classes.tolist() == ["a", "b", "c"]
    for train, test in folds:
        fitted = clone(model).fit([bags[i] for i in train], y[train])
        held_out = [bags[i] for i in test]
        seen = np.searchsorted(["a", "b", "c"], fitted.classes_)
        scores = fitted.decision_function(held_out)
        if scores.ndim == 1:
            scores = np.column_stack([-scores, scores])
            assert (found.scores[test, 1] == -np.inf).all()  # b
        np.testing.assert_allclose(found.scores[np.ix_(test, seen)], scores)
        if hasattr(fitted, "predict_proba"):
            shares = fitted.predict_proba(held_out)
            np.testing.assert_allclose(found.probabilities[np.ix_(test, seen)], shares)
            np.testing.assert_allclose(found.probabilities[test].sum(axis=1), 1)


def test_folds_without_a_label_are_evaluated(three_labels):
    bags, y, folds = three_labels
    for order in (folds, folds[::-1]):
        result = evaluate(SetKernelSVM(), bags, y, cv=order)
        assert sorted(result.scores) == ["AUC", "accuracy", "balanced accuracy"]
        expected = cross_val_score(SetKernelSVM(), Bags.from_arrays(bags), y, cv=order)
        np.testing.assert_allclose(result.scores["accuracy"], expected)


def test_labels_with_a_probability_above_a_half_are_predicted(data):
    sets = np.column_stack([np.arange(30) % 6 > 0, np.arange(30) % 6 == 0]).astype(int)
    found = held_out_predictions(LabelFrequencies(), data.bags, sets, cv=2)
    assert found.predicted.tolist() == [[1, 0]] * 30
    assert found.classes is None  # the columns of y
