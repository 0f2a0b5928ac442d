"""OrdinalBagClassifier: the plain classifier for two grades, thresholds for more."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.isotonic import isotonic_regression
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bagwise import Bags
from bagwise.auto import AutoBagClassifier
from bagwise.classification import (
    MILBoost,
    OrdinalBagClassifier,
    SetKernelSVM,
    SingleInstanceClassifier,
)
from bagwise.embedding import BagStatistics
from bagwise.exceptions import LabelError
from bagwise.predictions import instance_attributions
from bagwise.preprocessing import InstanceTransformer, make_bag_pipeline
from bagwise.regression import SetKernelRegressor
from bagwise.solvers.grades import grade_probabilities, margins, non_increasing
from cases import each

INNER = [
    SetKernelSVM(),
    SingleInstanceClassifier(),
    SingleInstanceClassifier(LogisticRegression(), pooling="mean"),
    MILBoost(),
    make_pipeline(BagStatistics(), ExtraTreesClassifier(50, random_state=0)),
    make_bag_pipeline(InstanceTransformer(StandardScaler()), SetKernelSVM()),
    AutoBagClassifier(candidates=["pooled-trees", "nsk"], cv=2, random_state=0),
]
METHODS = ("predict", "decision_function", "predict_proba", "score_instances", "key_instances")


def graded(n_bags=60, n_grades=4, seed=0):
    """Bags whose grade is the severity of their worst instance, with noise."""
    rng = np.random.default_rng(seed)
    grades = np.arange(n_bags) % n_grades
    arrays = [rng.normal(size=(rng.integers(2, 6), 3)) for _ in grades]
    for array, grade in zip(arrays, grades, strict=True):
        array[rng.integers(len(array)), 0] = 2.5 * grade + 0.5 * rng.normal()
    return Bags.from_arrays(arrays), grades


@each("inner", INNER)
def test_two_grades_are_the_plain_classifier(inner):
    bags, y = graded(40, 2)
    test, _ = graded(20, 2, seed=1)
    model, plain = OrdinalBagClassifier(inner).fit(bags, y), clone(inner).fit(bags, y)
    for method in METHODS:
        assert hasattr(model, method) >= hasattr(plain, method), method
        if hasattr(plain, method):
            found, expected = getattr(model, method)(test), getattr(plain, method)(test)
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12, err_msg=method)


@each("inner", [inner for inner in INNER if not isinstance(inner, MILBoost | AutoBagClassifier)])
def test_the_grade_is_where_the_answers_change(inner):
    """One classifier per threshold, word by word."""
    bags, y = graded()
    test, _ = graded(40, seed=1)
    model = OrdinalBagClassifier(inner).fit(bags, y)
    above = [clone(inner).fit(bags, (y > k).astype(int)) for k in range(3)]
    if hasattr(inner, "predict_proba"):
        yes = np.array([each.predict_proba(test)[:, 1] for each in above]).T
        yes = np.array([isotonic_regression(row, increasing=False) for row in yes])
        expected = -np.diff(np.pad(yes, ((0, 0), (1, 1)), constant_values=((0, 0), (1, 0))))
        np.testing.assert_allclose(model.predict_proba(test), expected, atol=1e-12)
        answers = yes > 0.5
    else:
        yes = np.array([each.decision_function(test) for each in above]).T
        answers = np.array([isotonic_regression(row, increasing=False) for row in yes]) > 0
    np.testing.assert_array_equal(model.predict(test), answers.sum(axis=1))


def test_projection_and_margins(rng):
    values = rng.normal(size=(200, 5)).round(1)
    found = non_increasing(values)
    expected = [isotonic_regression(row, increasing=False) for row in values]
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert (np.diff(found) <= 1e-12).all()
    certain = found[(np.abs(found) > 1e-9).all(axis=1)]
    assert (margins(certain).argmax(axis=1) == (certain > 0).sum(axis=1)).all()
    shares = grade_probabilities(non_increasing(rng.random((50, 4))))
    assert (shares >= -1e-12).all()
    np.testing.assert_allclose(shares.sum(axis=1), 1)


def test_names_of_grades_do_not_change_the_model():
    bags, y = graded()
    order = ["none", "mild", "moderate", "severe"]
    names = np.array(order)[y]
    plain = OrdinalBagClassifier(SingleInstanceClassifier(LogisticRegression())).fit(bags, y)
    given = clone(plain).set_params(ordered_classes=[*order, "fatal"]).fit(bags, names)
    series = pd.Series(pd.Categorical(names, categories=order, ordered=True))
    known = clone(plain).fit(bags, series)
    for model in (given, known):
        assert model.classes_.tolist() == sorted(order)
        assert model.ordered_classes_.tolist() == order
        np.testing.assert_array_equal(model.predict(bags), np.array(order)[plain.predict(bags)])
        columns = [sorted(order).index(name) for name in order]
        for method in ("decision_function", "predict_proba", "score_instances"):
            found = getattr(model, method)(bags)[:, columns]
            np.testing.assert_array_equal(found, getattr(plain, method)(bags))
    scores = [cross_val_score(clone(plain), bags, grades, cv=3) for grades in (series, y)]
    np.testing.assert_array_equal(*scores)


def test_instances_have_grades_and_contributions():
    bags, y = graded(120)
    model = OrdinalBagClassifier(SingleInstanceClassifier(LogisticRegression())).fit(bags, y)
    own = model.predict_instances(bags)
    worst = np.array([part.max() for part in bags.split(own)])
    np.testing.assert_array_equal(worst, model.predict(bags))  # pooled by the maximum
    keys = bags.offsets[:-1] + model.key_instances(bags)
    np.testing.assert_array_equal(own[keys], model.predict(bags))
    assert instance_attributions(model, bags, method="one_removed").shape == (len(own), 4)
    alone = instance_attributions(model, bags, method="single")
    np.testing.assert_allclose(alone, model.score_instances(bags))


BAGS = Bags.from_arrays([[[0.0]], [[1.0]], [[2.0]]], ids=list("abc"))


@each(("y", "order", "message"), [
    (["low", "high", "low"], None, "no order: give ordered_classes"),
    ([1, 1, 1], None, "one class, 1"),
    (["low", "high", "odd"], ["low", "high"], "bag 2 \\('c'\\) has the grade 'odd'"),
    (["low", "high", "low"], ["low", "low", "high"], "a grade twice"),
    ([0, 1, None], None, "bag 2 \\('c'\\)"),
    ([0, 1], None, "2 labels for 3 bags"),
])  # fmt: skip
def test_wrong_grades_are_refused(y, order, message):
    with pytest.raises(LabelError, match=message):
        OrdinalBagClassifier(ordered_classes=order).fit(BAGS, y)


def test_the_inner_estimator_must_be_a_classifier():
    with pytest.raises(ValueError, match="expected a classifier"):
        OrdinalBagClassifier(SetKernelRegressor()).fit(BAGS, [0, 1, 2])
