"""PrimalDualMISVM(assumption="standard"): decoy test, invariants, label sets, invalid options."""

from functools import partial
from unittest import mock

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bagwise import Bags
from bagwise.classification import PrimalDualMISVM
from bagwise.preprocessing import InstanceTransformer, make_bag_pipeline
from cases import each
from checks import example
from one_sided_oracle import objective

standard = partial(PrimalDualMISVM, C=1.0, assumption="standard")


def signs_of(y):
    return np.where(np.asarray(y)[:, None] == np.unique(y)[1], 1.0, -1.0)


def decoys(seed, n_bags, decoy_in, strength=10.0, d=16):
    """A concept in positive bags; a decoy at -strength in the bags of one class."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_bags) % 2
    bags = []
    for label in y:
        rows = [rng.normal(size=(8, d))]
        if label:
            n_concept = rng.integers(1, 4)
            wide = rng.random((n_concept, 1)) < 0.5
            normal = rng.normal(size=(n_concept, d))
            rows.append(np.where(wide, 3 * normal, 1 + normal))
        if label == decoy_in:
            rows.append(-strength + 0.1 * rng.normal(size=(1, d)))
        bags.append(np.concatenate(rows))
    return Bags.from_arrays(bags), y


@each("strength", [3.0, 10.0])
def test_a_decoy_that_moves_to_positive_bags_does_not_matter(strength):
    for seed in range(2):
        features = Nystroem(gamma=1 / 16, n_components=80, random_state=0)
        model = make_bag_pipeline(
            InstanceTransformer(make_pipeline(StandardScaler(), features)), standard(rho=1.1)
        ).fit(*decoys(seed, 160, 0, strength))
        bags, labels = decoys(100 + seed, 200, 1, strength)
        assert roc_auc_score(labels, model.decision_function(bags)) >= 0.95


def test_a_plane_per_class_follows_the_decoy_and_one_plane_does_not():
    train, (before, y), (after, y_after) = (
        decoys(seed, n, kind) for seed, n, kind in ((0, 200, 0), (1, 200, 0), (1, 200, 1))
    )
    found = {}
    for assumption in ("standard", "classes"):
        svm = PrimalDualMISVM(rho=1.1, assumption=assumption, random_state=0)
        model = make_bag_pipeline(InstanceTransformer(StandardScaler()), svm).fit(*train)
        found[assumption] = [
            roc_auc_score(y, model.decision_function(before)),
            roc_auc_score(y_after, model.decision_function(after)),
        ]
    assert found["classes"][0] > 0.95
    assert found["classes"][1] < 0.2
    assert abs(np.subtract(*found["standard"])) < 0.1


@each("solver", ["exact", "inexact"])
def test_another_instance_never_lowers_the_score(solver, rng):
    bags, y = example(40)
    model = standard(solver=solver, rho=1.1).fit(bags, y)
    scores = model.decision_function(bags)
    for scale in (1.0, 10.0, 1000.0):
        more = Bags.from_arrays([np.vstack([bag, scale * rng.normal(size=(1, 4))]) for bag in bags])
        assert (model.decision_function(more) >= scores).all()


@each("solver", ["exact", "inexact"])
def test_the_objective_is_the_documented_one(solver):
    bags, y = example(40)
    model = standard(solver=solver, rho=1.1)
    with mock.patch.object(PrimalDualMISVM, "_thresholds", return_value=0.0):
        model.fit(bags, y)
    assert model.coef_.shape == (1, 4)
    value = objective(
        model.coef_, model.intercept_, bags.instances, bags.offsets, signs_of(y), 1.0, np.ones(40)
    )
    assert model.objective_curve_[-1] == pytest.approx(value)
    assert len(model.residuals_) == model.n_iter_ == len(model.objective_curve_)


def test_order_and_copies(rng):
    bags, y = example(40)
    model = standard(rho=1.1).fit(bags, y)
    order = rng.permutation(len(bags))
    moved = Bags.from_arrays([bags[int(i)][rng.permutation(bags.sizes[i])] for i in order])
    found = clone(model).fit(moved, y[order])
    np.testing.assert_allclose(found.coef_, model.coef_, atol=1e-6)
    weights = 1.0 + np.arange(40) % 2
    twice = np.repeat(np.arange(40), weights.astype(int))
    for options in ({}, {"solver": "inexact"}, {"kernel": "rbf"}):
        of_copies = clone(model).set_params(**options).fit(bags[twice], y[twice])
        weighted = clone(model).set_params(**options).fit(bags, y, sample_weight=weights)
        np.testing.assert_allclose(
            weighted.decision_function(bags), of_copies.decision_function(bags), atol=1e-4
        )


def test_single_instances_approach_the_svm(rng):
    y = np.arange(30) % 2
    X = rng.normal(size=(30, 3)) + y[:, None]
    svm = SVC(kernel="linear", C=0.5, tol=1e-8).fit(X, y)
    slacks = np.maximum(0, 1 - np.where(y, 1, -1) * svm.decision_function(X))
    best = 0.5 * np.sum(svm.coef_**2) + 0.5 * slacks.sum()
    model = standard(C=0.5, mu=1e-2, rho=1.005, tol=1e-7, max_iter=5000).fit(X, y)
    assert best * (1 - 1e-6) <= model.objective_curve_[-1] <= 1.002 * best


def test_more_classes_are_learned_one_against_the_rest():
    bags, y = example(45, n_classes=3)
    together = standard(rho=1.1, tol=0.0, max_iter=60)
    with pytest.warns(ConvergenceWarning, match="max_iter=60"):
        together.fit(bags, y)
        for m, label in enumerate(together.classes_):
            alone = clone(together).fit(bags, y == label)
            np.testing.assert_allclose(alone.coef_[0], together.coef_[m], atol=1e-8)
    assert together.decision_function(bags).shape == (45, 3)


def test_label_sets_have_a_column_each_and_background_bags_are_negative():
    bags, y = example(40)
    sets = [{"q", "z"} if label == "q" else set() for label in y]
    model = standard(rho=1.1).fit(bags, sets)
    plain = standard(rho=1.1).fit(bags, y == "q")
    np.testing.assert_allclose(model.coef_, np.repeat(plain.coef_, 2, axis=0), atol=1e-6)
    assert model.label_kind_ == "sets"
    assert model.classes_.tolist() == ["q", "z"]
    np.testing.assert_array_equal(model.predict(bags)[:, 0], plain.predict(bags))
    unknown = [None if i % 7 == 3 else labels for i, labels in enumerate(sets)]
    left = np.array([labels is not None for labels in unknown])
    found = standard(rho=1.1).fit(bags, unknown).coef_
    expected = standard(rho=1.1).fit(bags[left], [s for s in unknown if s is not None]).coef_
    np.testing.assert_allclose(found, expected, atol=1e-8)


def test_labels_that_all_bags_or_no_bag_carry():
    bags, y = example(30)
    table = np.column_stack([y == "q", np.ones(30), np.zeros(30)]).astype(int)
    model = standard(rho=1.1).fit(bags, table)
    np.testing.assert_allclose(model.coef_[1:], 0, atol=1e-2)
    assert (model.predict(bags)[:, 1:] == [1, 0]).all()
