"""Decisions do not depend on the last digits, which differ between processors."""

import numpy as np
from sklearn.base import clone
from sklearn.utils._testing import ignore_warnings, set_random_state

from bagwise.annotation import M3MIML, RankLossSIM
from bagwise.base import RowEstimator
from bagwise.classification import CitationKNN, InstanceMarginSVM
from bagwise.loops import boosted_trees, threads, ties
from cases import each
from checks import answers, example, example_for, row_answers, row_example
from estimators import public_estimators, quick

ESTIMATORS = [quick(cls) for cls in public_estimators()]
# Scores that a perturbation of the last digit may change by more than 1e-6: a solver of tolerance
# 1e-4 (LIBLINEAR), gradient descent in single precision, a basis of equal eigenvalues.
LOOSE = {"SingleInstanceClassifier": 1e-2, "AttentionMIL": 1e-2, "MINet": 1e-2, "MIMLMetric": 1e-3}


@each("dtype", [np.float64, np.float32])
def test_equal_up_to_rounding_is_equal(dtype, rng):
    eps = np.finfo(dtype).eps
    values = rng.normal(size=(50, 4)).astype(dtype)
    values[:, 2] = values.max(axis=1) * (1 + 4 * eps)
    values[:, 1] = values[:, 2] * (1 - 8 * eps)
    values[:, [0, 3]] -= 20
    settled = ties.settled(values, axis=1)
    assert settled.dtype == dtype
    assert (settled.argmax(axis=1) == 1).mean() > 0.95  # a boundary may lie between
    np.testing.assert_allclose(settled, values, atol=40 * 2**-16 if dtype == np.float32 else 1e-6)


def test_what_differs_stays_different():
    values = np.array([1.0, 1.0 + 1e-6, 3.0])
    assert len(np.unique(ties.settled(values))) == 3
    np.testing.assert_array_equal(
        ties.settled(np.array([[1e-9, 2e-9], [1.0, 5.0]]), axis=1).argmax(1), 1
    )


@each("values", [[], [0.0, 0.0], [np.inf, 1.0], [-np.inf, 5e-324], [1e308, -1e308]])
def test_any_floats(values):
    values = np.array(values)
    np.testing.assert_allclose(ties.settled(values), values)


def test_integers_stay():
    values = np.array([2**60 + 1, 2**60])
    assert ties.settled(values) is values


def perturbed(table, seed=0):
    """Change the last digits; equal values stay equal."""
    values, where = np.unique(table, return_inverse=True)
    signs = np.random.default_rng(seed).choice([-1, 1], len(values))
    return (values * (1 + 1e-14 * signs))[where.reshape(table.shape)]


@each("estimator", ESTIMATORS)
@ignore_warnings()
def test_rounding_decides_nothing(estimator):
    model = clone(estimator)
    set_random_state(model, 0)
    rtol = LOOSE.get(type(model).__name__, 1e-6)
    for n_classes in (2, 3):
        if isinstance(model, RowEstimator):
            X, y = row_example()
            y[(y == "r") & (n_classes == 2)] = "p"
            fits = [clone(model).fit(Z, y) for Z in (X, perturbed(X))]
            expected, found = ({k: [v] for k, v in row_answers(f, X).items()} for f in fits)
        else:
            bags, y = example_for(model, n_classes=n_classes)
            test, _ = example_for(model, n_classes=n_classes, seed=1)
            other = bags.with_instances(perturbed(bags.instances))
            expected, found = (answers(clone(model).fit(Z, y), test) for Z in (bags, other))
        for name, parts in expected.items():
            a, b = (
                np.concatenate([np.ravel(part) for part in each]) for each in (parts, found[name])
            )
            if a.dtype.kind == "f":
                np.testing.assert_allclose(b, a, rtol=0, atol=rtol * np.abs(a).max(), err_msg=name)
            else:
                np.testing.assert_array_equal(b, a, err_msg=name)


def on_a_grid(n_classes, seed):
    """Bags of noise on a grid: distances and scores tie by the dozen."""
    rng = np.random.default_rng(seed)
    bags, y = example(n_classes=n_classes, seed=seed)
    return bags.with_instances(np.round(2 * rng.normal(size=bags.instances.shape)) / 2), y


@each("model", [CitationKNN(), InstanceMarginSVM(), M3MIML()])
@each("n_classes", [2, 3])
@ignore_warnings()
def test_ties_by_the_dozen(model, n_classes):
    bags, y = on_a_grid(n_classes, 5)
    test, _ = on_a_grid(n_classes, 4)
    expected = clone(model).fit(bags, y).predict(test)
    for seed in range(3):
        other = bags.with_instances(perturbed(bags.instances, seed))
        np.testing.assert_array_equal(clone(model).fit(other, y).predict(test), expected)


@ignore_warnings()
def test_rank_loss_on_many_features():
    """The rounds amplify what a loose solution leaves open: 40 % of the scores, once."""
    rng = np.random.default_rng(0)
    bags, y = example(40, n_classes=2)
    bags = bags.with_instances(rng.normal(size=(bags.n_instances, 60)))
    model = RankLossSIM()
    expected = model.fit(bags, y).score_instances(bags)
    found = model.fit(bags.with_instances(perturbed(bags.instances)), y).score_instances(bags)
    np.testing.assert_allclose(found, expected, atol=1e-4 * np.abs(expected).max())


def test_the_tree_does_not_depend_on_the_number_of_threads(monkeypatch):
    """Two features that split alike: the first is taken, though it is another block's."""
    rng = np.random.default_rng(0)
    column = rng.normal(size=300)
    columns = np.array([column, column**3, np.exp(column), 2 * column])
    order = np.argsort(columns, axis=1, kind="stable").astype(np.int32)
    weights = np.where(column > 0.3, 1.0, -1.0) * rng.uniform(0.1, 1, 300)
    monkeypatch.setattr(threads, "n_threads", lambda: 4)
    blocks = ([0, 4], [0, 2, 4], [0, 1, 2, 3, 4])
    found = [boosted_trees.grow_tree(columns, order, weights, 2, np.array(b)) for b in blocks]
    for tree in found[1:]:
        for part, expected in zip(tree, found[0], strict=True):
            np.testing.assert_array_equal(part, expected)
