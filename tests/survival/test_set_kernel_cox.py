"""SetKernelCox: against scikit-survival on the same features; laws; bad input."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from bagwise import Bags
from bagwise.exceptions import LabelError
from bagwise.solvers.survival import kaplan_meier
from bagwise.survival import SetKernelCox
from cases import each
from checks import OUR_CHECKS
from survival_data import TIMES, SetKernelCoxOfNumbers, example

LARGEST = SetKernelCoxOfNumbers(pooling="max")  # the mean is among the common checks


@parametrize_with_checks([LARGEST])
def test_scikit_learn(estimator, check):
    check(estimator)


@each("check", OUR_CHECKS)
def test_bagwise(check):
    check(clone(LARGEST))


def mean_features(model, bags):
    """Nystroem features of the instances, averaged bag by bag and standardised."""
    means = np.array([model.nystroem_.transform(bag).mean(axis=0) for bag in bags])
    return (means - means.mean(axis=0)) / means.std(axis=0) / np.sqrt(means.shape[1])


@each("reg", [1.0, 10.0])
def test_the_mean_is_the_model_of_scikit_survival_on_the_features(reg):
    linear_model = pytest.importorskip("sksurv.linear_model")
    bags, y = example()
    assert len(np.unique(y["time"][y["event"]])) < y["event"].sum()  # ties
    model = SetKernelCox(reg, n_landmarks=20, tol=1e-10).fit(bags, y)
    features = mean_features(model, bags)
    cox = linear_model.CoxPHSurvivalAnalysis(alpha=reg, ties="efron", tol=1e-14).fit(features, y)
    np.testing.assert_allclose(model.predict(bags), cox.predict(features), atol=1e-6)
    np.testing.assert_array_equal(model.unique_times_, cox.unique_times_)
    curves = model.predict_survival_function(bags, return_array=True)
    theirs = cox.predict_survival_function(features, return_array=True)
    np.testing.assert_allclose(curves, theirs, atol=1e-6)
    assert model.score(bags, y) == pytest.approx(cox.score(features, y))


@each("pooling", ["mean", "max"])
def test_a_weight_is_a_number_of_copies(pooling):
    bags, y = example()
    weight = np.random.default_rng(1).integers(1, 4, len(bags))
    copies = np.repeat(np.arange(len(bags)), weight)
    # All instances are landmarks; the scale of the features depends on the copies.
    how = {"pooling": pooling, "n_landmarks": 5, "kernel": "linear", "tol": 1e-9}
    weighted = SetKernelCox(reg=1e-6, **how).fit(bags, y, weight)
    repeated = SetKernelCox(reg=1e-6, **how).fit(bags[copies], y[copies])
    a, b = weighted.predict(bags), repeated.predict(bags)
    np.testing.assert_allclose(a - a.mean(), b - b.mean(), atol=1e-3)


def test_bags_of_one_instance_need_no_pooling():
    bags, y = example()
    alone = Bags.from_arrays([bag[:1] for bag in bags])
    mean, largest = (SetKernelCox(pooling=p, tol=1e-9).fit(alone, y) for p in ("mean", "max"))
    np.testing.assert_allclose(mean.predict(alone), largest.predict(alone), atol=1e-6)


def test_survival_functions_are_those_of_scikit_survival_in_form():
    bags, y = example()
    model = SetKernelCox().fit(bags, y)
    curves = model.predict_survival_function(bags, return_array=True)
    assert ((curves <= 1) & (curves >= 0)).all()
    assert (np.diff(curves, axis=1) <= 0).all()
    first = model.predict_survival_function(bags)[0]
    np.testing.assert_array_equal(first(first.x), curves[0])
    np.testing.assert_array_equal(first.y, curves[0])
    assert first(-1.0) == 1.0
    # Without an effect Breslow's estimate is close to Kaplan-Meier's.
    blind = SetKernelCox(reg=1e9).fit(bags, y).predict_survival_function(bags, return_array=True)
    np.testing.assert_allclose(blind[0], kaplan_meier(y["event"], y["time"])[1], atol=0.05)


def test_the_names_and_the_order_of_the_fields_do_not_matter():
    bags, y = example()
    other = np.array([(time, event) for event, time in y], dtype=[("months", "f4"), ("dead", bool)])
    zeros = np.array([(int(event), time) for event, time in y], dtype=[("e", int), ("t", float)])
    expected = SetKernelCox().fit(bags, y).predict(bags)
    for same in (other, zeros):
        np.testing.assert_allclose(SetKernelCox().fit(bags, same).predict(bags), expected)


def test_bad_times_are_refused_by_the_name_of_the_bag():
    bags, y = example()
    cases = {
        -2.0: "the time of bag 7 \\('b7'\\) is -2.0: times must not be negative",
        np.nan: "the time of bag 7 \\('b7'\\) is nan: times must be a finite number",
        np.inf: "the time of bag 7 \\('b7'\\) is inf",
    }
    for time, message in cases.items():
        wrong = y.copy()
        wrong["time"][7] = time
        with pytest.raises(LabelError, match=message):
            SetKernelCox().fit(bags, wrong)
    censored = y.copy()
    censored["event"] = False
    with pytest.raises(LabelError, match="no event was observed in 60 bags"):
        SetKernelCox().fit(bags, censored)
    with pytest.raises(LabelError, match="59 labels for 60 bags"):
        SetKernelCox().fit(bags, y[:59])
    with pytest.raises(LabelError, match="structured array with two fields"):
        SetKernelCox().fit(bags, y["time"])
    months = np.array([(2, 1.0)] * 60, dtype=[("a", int), ("b", float)])
    with pytest.raises(LabelError, match="unsuitable types"):
        SetKernelCox().fit(bags, months)


def test_a_time_zero_is_a_time():
    y = np.array([(True, 0.0), (False, 0.0), (True, 2.0)], dtype=TIMES)
    assert SetKernelCox().fit([[[1.0]], [[2.0]], [[0.0]]], y).score([[[1.0]]] * 3, y) == 0.5
