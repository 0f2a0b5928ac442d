"""Common behaviour of the classic multi-instance SVMs."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bagwise import Bags
from bagwise.classification import (
    BagMarginSVM,
    BalancedSparseMIL,
    InstanceMarginSVM,
    SparseMIL,
)
from bagwise.exceptions import InputError
from cases import each
from checks import example
from margin_oracle import PerInstance

# The problems as stated.
STATED = {"C": 1.0, "kernel": "linear", "threshold": "zero"}
MODELS = [
    BagMarginSVM(**STATED),
    PerInstance(**STATED),
    InstanceMarginSVM(**STATED),
    SparseMIL(**STATED, negative_weight=1.0),
    BalancedSparseMIL(**STATED, negative_weight=1.0, eta=0.1),
]

every_model = each("model", MODELS)


@each("model", [MODELS[0], *MODELS[2:4]])
@each("kernel", ["linear", "rbf"])
def test_singletons_equal_the_ordinary_svm(rng, model, kernel):
    y = np.arange(40) % 2
    X = rng.normal(size=(40, 3)) + y[:, None]
    new = rng.normal(size=(20, 3))
    cousin = SVC(C=0.7, kernel=kernel, tol=1e-8).fit(X, y).decision_function(new)
    found = clone(model).set_params(C=0.7, kernel=kernel).fit(X, y).decision_function(new)
    np.testing.assert_allclose(found, cousin, atol=1e-4)


def with_column(bags, values):
    return bags.with_instances(np.column_stack([bags.instances, values]))


@every_model
@each(("value", "scaled"), [(1.0, False), (-7.0, False), (1e4, False), (1e4, True)])
def test_a_constant_column_changes_nothing(model, value, scaled):
    bags, y = example(30, seed=4)
    wide = with_column(bags, np.full(bags.n_instances, value))
    if scaled:
        bags, wide = (
            some.with_instances(StandardScaler().fit_transform(some.instances))
            for some in (bags, wide)
        )
    plain, found = clone(model).fit(bags, y), clone(model).fit(wide, y)
    np.testing.assert_allclose(
        found.score_instances(wide), plain.score_instances(bags), rtol=1e-8, atol=1e-8
    )
    assert abs(found.coef_[0, -1] * value) < 1e-8


@every_model
@each(("kernel", "n_classes"), [("linear", 3), ("rbf", 2), ("poly", 3)])
def test_sparse_and_dense_instances_agree(model, kernel, n_classes):
    bags, y = example(24, n_classes=n_classes, seed=1)
    rows = bags.with_instances(sparse.csr_array(bags.instances))
    dense, found = (clone(model).set_params(kernel=kernel).fit(b, y) for b in (bags, rows))
    np.testing.assert_allclose(
        found.score_instances(rows), dense.score_instances(bags), rtol=1e-6, atol=1e-6
    )


@every_model
@each("kernel", ["linear", "rbf"])
def test_a_class_weight_equals_bags_repeated(model, kernel):
    if isinstance(model, BalancedSparseMIL):
        model = clone(model).set_params(eta=0.3)
    bags, y = example(20, seed=2)
    twice = np.concatenate([np.arange(20), np.flatnonzero(y == "q")])
    model = clone(model).set_params(C=0.2, kernel=kernel, gamma=0.2)
    weighted = clone(model).set_params(class_weight={"p": 1, "q": 2}).fit(bags, y)
    repeated = clone(model).fit(bags[twice], y[twice])
    np.testing.assert_allclose(
        weighted.decision_function(bags), repeated.decision_function(bags), atol=1e-5
    )


def test_a_class_without_weight_is_refused():
    bags, y = example(6)
    with pytest.raises(InputError, match="class 'q' is 0"):
        BagMarginSVM(class_weight={"q": 0}).fit(bags, y)


@every_model
@each("kernel", ["linear", "rbf"])
def test_one_bag_of_a_class_is_enough(model, kernel):
    bags, _ = example(9, seed=1)
    for label in ("one", "zero"):  # the single bag is negative, then positive
        labels = np.where(np.arange(9) == 5, label, "other")
        found = clone(model).set_params(kernel=kernel).fit(bags, labels)
        assert np.isfinite(found.decision_function(bags)).all()
    three = np.array(["a", "b", "b", "b", "c", "c", "c", "c", "c"])
    scores = clone(model).set_params(kernel=kernel).fit(bags, three).decision_function(bags)
    assert scores.shape == (9, 3)


@every_model
def test_one_positive_bag_far_off_is_found(model, rng):
    arrays = [rng.normal(size=(4, 3)) for _ in range(10)]
    arrays[3] = arrays[3] + 20
    found = clone(model).fit(arrays, np.arange(10) == 3)
    assert found.decision_function(arrays).argmax() == 3
    if not isinstance(model, SparseMIL):  # it asks for a mean of -1/2 only
        np.testing.assert_array_equal(found.predict(arrays), np.arange(10) == 3)


@every_model
def test_duplicates_share_their_fate(model):
    bags, y = example(16, seed=3)
    doubled = Bags.from_arrays([np.vstack([bag, bag]) for bag in bags])
    found = clone(model).fit(doubled, y)
    scores = doubled.split(found.score_instances(doubled))
    for part in scores:
        np.testing.assert_array_equal(part[: len(part) // 2], part[len(part) // 2 :])
    if type(model) is BagMarginSVM:
        plain = clone(model).fit(bags, y)  # the best instance is the best, however often it comes
        np.testing.assert_allclose(
            found.decision_function(bags), plain.decision_function(bags), atol=1e-6
        )


@every_model
@each(("kernel", "label"), [("linear", 0), ("rbf", 1)])
def test_a_bag_of_four_thousand_instances(model, kernel, label, rng):
    small = [rng.normal(size=(3, 2)) + 3 * (i % 2) for i in range(20)]
    bags = [*small, 0.3 * rng.normal(size=(4_000, 2)) + 3 * label]
    y = np.array([*(np.arange(20) % 2), label])
    found = clone(model).set_params(C=0.1, kernel=kernel).fit(bags, y)
    assert found.score_instances(bags).shape == (4_060,)
    assert found.key_instances(bags)[-1] == np.argmax(found.score_instances(bags)[60:])


@every_model
@each("kernel", ["rbf", "poly", "cosine"])
def test_as_many_landmarks_as_instances_are_the_kernel_itself(model, kernel):
    bags, y = example(20, seed=1)
    model = clone(model).set_params(kernel=kernel, gamma=0.2)
    exact = clone(model).set_params(n_landmarks=None).fit(bags, y)
    found = clone(model).set_params(n_landmarks=10_000).fit(bags, y)
    assert not hasattr(exact, "nystroem_")
    assert not hasattr(found, "dual_coef_")
    assert found.gamma_ == exact.gamma_
    assert found.objective_curve_[-1] == pytest.approx(exact.objective_curve_[-1], rel=1e-4)
    np.testing.assert_allclose(
        found.decision_function(bags), exact.decision_function(bags), atol=2e-3
    )
