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

pytest.importorskip("clarabel", reason="the oracle is a QP solved by clarabel")

from qp_oracle import bag_margin_problem, solve_margins


def optimum(*problem):
    return solve_margins(*problem)[2]


def bag_margin_optimum(bags, positive, witnesses, C):
    rows = [bag[w] for bag, w in zip(bags, witnesses, strict=True)]
    return optimum(*bag_margin_problem(bags, positive, rows, C))


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
