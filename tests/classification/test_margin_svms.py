"""MI-SVM, mi-SVM, sMIL and sbMIL against a general QP solver and brute force on tiny problems."""

from itertools import product

import numpy as np
import pytest
from scipy import sparse
from sklearn.svm import SVC

from bagwise import Bags
from bagwise.classification import (
    BagMarginSVM,
    BalancedSparseMIL,
    InstanceMarginSVM,
    SparseMIL,
)
from checks import example

clarabel = pytest.importorskip("clarabel", reason="the oracle is a QP solved by clarabel")


def optimum(points, signs, margins, groups, costs):
    """min 1/2 |w|^2 + sum_g C_g xi_g with y (w.z + b) >= p - xi_g, by an interior point method."""
    points, signs = np.asarray(points), np.asarray(signs, float)
    d = points.shape[1]
    n_groups = len(costs)
    P = sparse.csc_array(sparse.diags_array(np.r_[np.ones(d), np.zeros(1 + n_groups)]))
    q = np.r_[np.zeros(d + 1), costs]
    meet = np.hstack([-signs[:, None] * points, -signs[:, None], -np.eye(n_groups)[groups]])
    positive = np.hstack([np.zeros((n_groups, d + 1)), -np.eye(n_groups)])
    right = np.r_[-np.asarray(margins, float), np.zeros(n_groups)]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    rows = sparse.csc_array(np.vstack([meet, positive]))
    cones = [clarabel.NonnegativeConeT(len(right))]
    return clarabel.DefaultSolver(P, q, rows, right, cones, settings).solve().obj_val


def bag_margin_optimum(bags, positive, witnesses, C):
    """MI-SVM with the witness of each positive bag given; negative bags share one slack."""
    points, signs, groups = [], [], []
    for i, bag in enumerate(bags):
        rows = [bag[witnesses[i]]] if positive[i] else bag
        points += list(rows)
        signs += [1 if positive[i] else -1] * len(rows)
        groups += [i] * len(rows)
    return optimum(points, signs, np.ones(len(points)), groups, np.full(len(bags), C))


def tiny(seed):
    bags, y = example(8, seed=seed)
    return bags, (y == "q").astype(int)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("C", [0.1, 1.0])
def test_bag_margin_ends_at_the_optimum_of_its_own_witnesses(seed, C):
    bags, y = tiny(seed)
    model = BagMarginSVM(C=C).fit(bags, y)
    found = bag_margin_optimum(bags, y == 1, model.key_instances(bags), C)
    assert model.objective_curve_[-1] == pytest.approx(found, rel=1e-4)


def test_bag_margin_is_not_below_the_best_of_all_witnesses():
    bags, y = tiny(0)
    choices = [range(len(bag)) if label else [0] for bag, label in zip(bags, y, strict=True)]
    best = min(bag_margin_optimum(bags, y == 1, w, 1.0) for w in product(*choices))
    found = BagMarginSVM(C=1.0).fit(bags, y).objective_curve_[-1]
    assert best * (1 - 1e-5) <= found <= 2 * best


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("C", [0.1, 1.0])
def test_sparse_mil_solves_its_convex_problem(seed, C):
    bags, y = tiny(seed)
    points, signs, margins = [], [], []
    for bag, label in zip(bags, y, strict=True):
        points += [bag.mean(axis=0)] if label else list(bag)
        signs += [1] if label else [-1] * len(bag)
        margins += [2 / len(bag) - 1] if label else [1] * len(bag)
    n = len(points)
    expected = optimum(points, signs, margins, np.arange(n), np.full(n, C))
    model = SparseMIL(C=C).fit(bags, y)
    assert model.objective_curve_[-1] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("seed", range(4))
def test_instance_margin_ends_where_labels_and_scores_agree(seed):
    bags, y = tiny(seed)
    model = InstanceMarginSVM(C=1.0).fit(bags, y)
    labels = np.concatenate(
        [
            np.where((s > 0) | (s == s.max()), 1, -1) if label else -np.ones(len(s))
            for s, label in zip(bags.split(model.score_instances(bags)), y, strict=True)
        ]
    )
    n = bags.n_instances
    expected = optimum(bags.instances, labels, np.ones(n), np.arange(n), np.full(n, 1.0))
    assert model.objective_curve_[-1] == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("model", [BagMarginSVM(), InstanceMarginSVM(), SparseMIL()])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_singletons_equal_the_ordinary_svm(rng, model, kernel):
    y = np.arange(40) % 2
    X = rng.normal(size=(40, 3)) + y[:, None]
    new = rng.normal(size=(20, 3))
    cousin = SVC(C=0.7, kernel=kernel, tol=1e-8).fit(X, y).decision_function(new)
    found = model.set_params(C=0.7, kernel=kernel).fit(X, y).decision_function(new)
    np.testing.assert_allclose(found, cousin, atol=1e-4)


def test_balanced_sparse_mil_is_an_svm_on_the_top_share():
    bags, y = tiny(0)
    ranked = SparseMIL(C=1.0).fit(bags, y).score_instances(bags)
    inside = (y == 1)[bags.bag_index]
    n_top = max(int(np.rint(0.3 * inside.sum())), int((y == 1).sum()))
    candidates = np.flatnonzero(inside)
    top = candidates[np.argsort(-ranked[candidates])[:n_top]]
    labels = -np.ones(bags.n_instances)
    labels[top] = 1
    n = bags.n_instances
    expected = optimum(bags.instances, labels, np.ones(n), np.arange(n), np.ones(n))
    model = BalancedSparseMIL(C=1.0, eta=0.3).fit(bags, y)
    assert model.objective_curve_[-1] == pytest.approx(expected, rel=1e-3)


MODELS = [BagMarginSVM, InstanceMarginSVM, SparseMIL, BalancedSparseMIL]


@pytest.mark.parametrize("cls", MODELS)
def test_edges(cls, rng):
    big = [rng.normal(size=(10_000, 2)), *(rng.normal(size=(3, 2)) + 4 for _ in range(5))]
    assert set(cls().fit(big, [0, 1, 1, 1, 1, 1]).predict(big)) <= {0, 1}
    one_positive = [rng.normal(size=(3, 2)) for _ in range(6)]
    assert np.isfinite(cls().fit(one_positive, [1, 0, 0, 0, 0, 0]).decision_function(big)).all()
    same = [np.ones((2, 2))] * 6
    assert np.isfinite(cls().fit(same, [0, 1] * 3).decision_function(same)).all()


@pytest.mark.parametrize("cls", MODELS)
def test_sparse_and_dense_instances_agree(cls):
    bags, y = example(20)
    rows = bags.with_instances(sparse.csr_array(bags.instances))
    np.testing.assert_allclose(
        cls().fit(rows, y).decision_function(rows),
        cls().fit(bags, y).decision_function(bags),
        atol=1e-5,
    )


@pytest.mark.parametrize("cls", MODELS)
def test_a_constant_column_of_zeros_changes_nothing(cls):
    bags, y = example(20)
    wide = Bags(np.hstack([bags.instances, np.zeros((bags.n_instances, 1))]), bags.offsets)
    np.testing.assert_allclose(
        cls().fit(wide, y).decision_function(wide),
        cls().fit(bags, y).decision_function(bags),
        atol=1e-6,
    )


@pytest.mark.parametrize("cls", [BagMarginSVM, InstanceMarginSVM])
def test_alternation_ends_on_mixed_up_data(cls):
    rng = np.random.default_rng(5)
    bags = [rng.normal(size=(6, 2)) for _ in range(30)]
    model = cls(C=100.0).fit(bags, rng.integers(0, 2, 30))
    assert model.n_iter_ <= model.max_iter
