"""The measures of a fold, against counts of pairs and against scikit-learn."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score

from bagwise.classification import SetKernelSVM, SingleInstanceClassifier
from bagwise.evaluate import evaluate
from bagwise.evaluate._measures import (
    label_set_log_loss,
    mean_area_under_roc,
    predictions_of,
    scores_of,
)
from bagwise.exceptions import InputError


def model_measures(model, bags, y, *, classes):
    return scores_of(model, bags, y, classes=classes, scoring=None)[0]


class Fixed:
    """A model that returns what it was given."""

    def __init__(self, classes, proba, scores=None):
        self.classes_ = np.array(classes)
        self.proba = np.array(proba)
        if scores is not None:
            self.decision_function = lambda X: np.array(scores)

    def predict(self, X):
        return self.classes_[self.proba.argmax(axis=1)]

    def predict_proba(self, X):
        return self.proba


def counted_area(positive, scores):
    """The share of pairs of a positive and a negative bag that are ranked right, by a loop."""
    pairs = [(a, b) for a in scores[positive] for b in scores[~positive]]
    return sum((a > b) + 0.5 * (a == b) for a, b in pairs) / len(pairs)


@pytest.fixture
def three(rng):
    y = np.array(list("aabbccab"))
    return y, rng.dirichlet([1, 1, 1], size=8)


def test_the_area_of_several_classes_is_the_mean_of_each_against_all_others(three):
    y, proba = three
    expected = np.mean([counted_area(y == label, proba[:, k]) for k, label in enumerate("abc")])
    assert mean_area_under_roc(y, proba, np.array(list("abc"))) == pytest.approx(expected)
    assert expected == pytest.approx(roc_auc_score(y, proba, multi_class="ovr"))
    measures = model_measures(Fixed(list("abc"), proba), y, y, classes=np.array(list("abc")))
    assert measures["AUC"] == pytest.approx(expected)


def test_a_class_without_bags_is_left_out_of_the_mean(three):
    y, proba = three
    y = np.where(y == "c", "a", y)
    expected = np.mean([counted_area(y == label, proba[:, k]) for k, label in enumerate("ab")])
    assert mean_area_under_roc(y, proba, np.array(list("abc"))) == pytest.approx(expected)
    assert np.isnan(mean_area_under_roc(np.array(["a"] * 8), proba, np.array(list("abc"))))


def test_a_class_that_was_not_trained_on_has_no_area_and_no_log_loss(three):
    y, proba = three
    model = Fixed(["a", "c"], proba[:, :2] / proba[:, :2].sum(axis=1, keepdims=True))
    measures = model_measures(model, y, y, classes=np.array(list("abc")))
    areas = [counted_area(y == "a", model.proba[:, 0]), counted_area(y == "c", model.proba[:, 1])]
    assert measures["AUC"] == pytest.approx(np.mean(areas))
    assert np.isnan(measures["log loss"])


def test_one_of_two_classes_trained_on_has_no_area():
    y = np.array([0, 1, 1])
    measures = model_measures(Fixed([0], np.ones((3, 1))), y, y, classes=np.array([0, 1]))
    assert np.isnan(measures["AUC"])
    assert measures["accuracy"] == pytest.approx(1 / 3)


def test_log_loss_is_the_mean_surprise(three):
    y, proba = three
    measures = model_measures(Fixed(list("abc"), proba), y, y, classes=np.array(list("abc")))
    chances = [row["abc".index(label)] for row, label in zip(proba, y, strict=True)]
    assert measures["log loss"] == pytest.approx(-np.mean(np.log(chances)))


def test_a_test_part_of_one_class_has_a_log_loss():
    y = np.array([1, 1])
    model = Fixed([0, 1], [[0.5, 0.5], [0.25, 0.75]])
    measures = model_measures(model, y, y, classes=np.array([0, 1]))
    assert measures["log loss"] == pytest.approx(-np.log([0.5, 0.75]).mean())
    assert np.isnan(measures["AUC"])


@pytest.mark.parametrize(
    ("method", "values", "message"),
    [
        ("predict", [0, 1], "predict returned 2 values for 3 bags: return one per bag"),
        ("predict", [-1, 1, 1], "predict returned the label -1: expected one of 0, 1"),
        ("predict", ["0", "1", "1"], "predict returned the label '0': expected one of 0, 1"),
        ("decision_function", 0.5, "returned 1 value for 3 bags: return one per bag"),
        ("decision_function", [0.5, np.nan, 1], "returned nan: expected finite numbers"),
        ("decision_function", [0.5, np.inf, 1], "returned inf: expected finite numbers"),
        ("decision_function", np.ones((3, 3)), "3 columns for 2 classes: return one per class"),
        ("decision_function", ["a", "b", "c"], "values of type <U1: expected numbers"),
        ("predict_proba", [0.5, 0.5, 0.5], "1 column for 2 classes: return one per class"),
        ("predict_proba", [[0, 1], [1, 0], [np.nan, 1]], "nan: expected probabilities from 0 to 1"),
        ("predict_proba", [[0, 1], [1, 0], [-1, 2]], "-1: expected probabilities from 0 to 1"),
    ],
)
def test_what_is_not_one_result_per_bag_is_refused(method, values, message):
    y = np.array([0, 1, 1])
    model = SimpleNamespace(predict=lambda bags: y, classes_=[0, 1])
    setattr(model, method, lambda bags: values)
    with pytest.raises(InputError, match=message) as refused:
        predictions_of(model, y, np.array([0, 1]))
    assert message in str(refused.value)
    assert "types:SimpleNamespace." in str(refused.value)


def test_infinite_scores_of_a_label_of_no_bag_are_kept():
    scores = np.array([[np.inf, 0.5], [np.inf, -np.inf]])
    model = SimpleNamespace(decision_function=lambda bags: scores)
    assert predictions_of(model, [0, 1], None)["decision_function"].tolist() == scores.tolist()


def test_the_measures_of_models_of_three_classes(rng):
    y = np.arange(24) % 3
    bags = [rng.normal(size=(3, 2)) + np.array([[0, 0], [3, 0], [0, 3]])[k] for k in y]
    folds = [(np.arange(0, 12), np.arange(12, 24)), (np.arange(12, 24), np.arange(0, 12))]
    model = SingleInstanceClassifier(LogisticRegression())
    found = evaluate(model, bags, y, cv=folds)
    for k, (train, test) in enumerate(folds):
        fitted = clone(model).fit([bags[i] for i in train], y[train])
        proba = fitted.predict_proba([bags[i] for i in test])
        scores = fitted.decision_function([bags[i] for i in test])
        assert found.scores["log loss"][k] == pytest.approx(log_loss(y[test], proba))
        areas = [counted_area(y[test] == c, scores[:, c]) for c in range(3)]
        assert found.scores["AUC"][k] == pytest.approx(np.mean(areas))
    assert "log loss" not in evaluate(SetKernelSVM(), bags, y, cv=folds).scores


def test_the_log_loss_of_label_sets_is_the_mean_over_labels(rng):
    sets, proba = rng.integers(0, 2, size=(6, 3)), rng.uniform(size=(6, 3))
    sets[0], sets[1] = 0, 1  # each label is carried and missing
    expected = np.mean([log_loss(sets[:, k], proba[:, k]) for k in range(3)])
    found = model_measures(Fixed([0, 1, 2], proba), sets, sets, classes=np.arange(2))
    assert found["log loss"] == pytest.approx(expected)
    more = np.vstack([sets, [[-1, -1, -1]]]), np.vstack([proba, [[0.9, 0.9, 0.9]]])
    assert label_set_log_loss(*more) == pytest.approx(expected)  # unknown sets are left out
