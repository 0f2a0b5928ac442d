"""The metric of Jin et al. against general solvers of its three steps."""

import numpy as np
import pytest
from scipy import linalg
from scipy.optimize import minimize

from bagwise import Bags
from bagwise.compute.arrays import eigenvectors
from bagwise.exceptions import InputError, LabelError
from bagwise.metric_learning import MIMLMetric
from bagwise.solvers.metric.bag_metrics import best_directions, move_centres, spread
from cases import each


def example(n_bags=40, n_labels=4, seed=0):
    """The first three of six features tell the labels apart, the others only vary."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(n_labels, 3)) * 2
    label_sets = np.zeros((n_bags, n_labels), dtype=np.int8)
    arrays = []
    for row in label_sets:
        labels = rng.choice(n_labels, rng.integers(1, 4), replace=False)
        row[labels] = 1
        told = centres[labels] + 0.3 * rng.normal(size=(len(labels), 3))
        arrays.append(np.hstack([told, 2 * rng.normal(size=(len(labels), 3))]))
    return Bags.from_arrays(arrays), label_sets


def objective(A, Z, bags, label_sets):
    """The ratio written out, with the nearest instances."""
    total = 0.0
    for i, bag in enumerate(bags):
        for c in np.flatnonzero(label_sets[i]):
            total += min(np.sum((A @ (x - Z[c])) ** 2) for x in bag)
    pairs = [(c, e) for c in range(len(Z)) for e in range(c)]
    return total / sum(np.sum((A @ (Z[c] - Z[e])) ** 2) for c, e in pairs)


def test_objective_never_rises_and_is_the_ratio():
    bags, label_sets = example()
    model = MIMLMetric().fit(bags, label_sets)
    assert model.n_iter_ > 1
    assert (np.diff(model.objective_curve_) <= 1e-12).all()
    found = objective(model.components_, model.centroids_, bags, label_sets)
    np.testing.assert_allclose(model.objective_curve_[-1], found, rtol=1e-4)  # less the ridge
    np.testing.assert_allclose(
        model.components_ @ model.components_.T, np.eye(len(model.components_)), atol=1e-12
    )


def test_directions_are_those_that_tell():
    bags, label_sets = example(n_bags=200)
    model = MIMLMetric(n_components=3).fit(bags, label_sets)
    assert np.square(model.components_[:, :3]).sum() > 0.95 * 3


@each("n", [1, 2, 4])
def test_trace_ratio_is_no_worse_than_a_general_solver(n):
    rng = np.random.default_rng(n)
    B, W = rng.normal(size=(3, 5)), rng.normal(size=(9, 5))
    between, within = B.T @ B, W.T @ W

    def ratio(A):
        A = np.linalg.qr(A.reshape(5, n))[0]
        return np.trace(A.T @ between @ A) / np.trace(A.T @ within @ A)

    A = best_directions(within, between, n, np.eye(5))
    np.testing.assert_allclose(A.T @ A, np.eye(n), atol=1e-12)
    best = max(-minimize(lambda a: -ratio(a), rng.normal(size=5 * n)).fun for _ in range(10))
    assert ratio(A) >= best - 1e-6


@each("seed", range(8))
def test_centres_are_the_minimum_on_the_level_of_the_spread(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 9, 4).astype(float)
    means = rng.normal(size=(4, 2))
    before = means * rng.uniform(1.0, 3.0) + 0.3 * rng.normal(size=(4, 2))

    def cost(Z):
        return np.sum(sizes[:, None] * (Z.reshape(4, 2) - means) ** 2)

    moved = move_centres(means, before, sizes)
    assert spread(moved) >= spread(before) * (1 - 1e-9) or np.array_equal(moved, means)
    at_least = {"type": "ineq", "fun": lambda Z: spread(Z.reshape(4, 2)) - spread(before)}
    starts = [before, means, *(rng.normal(size=(5, 4, 2)) * 3)]
    best = min(
        found.fun
        for found in (
            minimize(cost, s.ravel(), constraints=at_least, method="SLSQP") for s in starts
        )
        if found.success
    )
    np.testing.assert_allclose(cost(moved), best, rtol=1e-4, atol=1e-8)


def test_labels_that_no_bag_carries_are_never_predicted():
    bags, label_sets = example()
    wide = np.hstack([label_sets, np.zeros((40, 2), dtype=np.int8)])
    model = MIMLMetric().fit(bags, wide)
    assert set(model.predict_instances(bags)) <= {0, 1, 2, 3}
    np.testing.assert_array_equal(model.category_sizes_, wide.sum(axis=0))
    np.testing.assert_allclose(model.components_, MIMLMetric().fit(bags, label_sets).components_)


def test_two_labels_are_needed():
    bags, _ = example()
    with pytest.raises(LabelError, match="1 labels"):
        MIMLMetric().fit(bags, np.eye(4, dtype=np.int8)[np.zeros(40, dtype=int)])


def test_labels_of_the_same_bags_cannot_be_told_apart():
    bags, label_sets = example()
    label_sets[:, :] = label_sets[:, :1]
    with pytest.raises(LabelError, match="in the same bags"):
        MIMLMetric().fit(bags, label_sets)


def test_labels_that_the_same_instances_stand_for_are_refused():
    bags = Bags.from_arrays([[[0.0, 1.0], [2.0, 3.0]]] * 6)
    with pytest.raises(InputError, match="same for all labels"):
        MIMLMetric().fit(bags, np.arange(6) % 2)


@each(("factor", "shift"), [(1e-40, 0.0), (1e60, 0.0), (1.0, 1e8)])
def test_unit_and_origin_of_the_features_do_not_matter(factor, shift):
    bags, label_sets = example()
    plain = MIMLMetric().fit(bags, label_sets)
    moved = bags.with_instances(bags.instances * factor + shift)
    model = MIMLMetric().fit(moved, label_sets)
    np.testing.assert_allclose(model.components_, plain.components_, atol=1e-5)
    np.testing.assert_array_equal(model.predict_instances(moved), plain.predict_instances(bags))


def test_eigenvectors_where_lapack_gives_up_on_a_part_of_them(rng, monkeypatch):
    """As it does on the tokens of Corel5K, whose matrices have many equal eigenvalues."""
    matrix = rng.normal(size=(6, 6))
    matrix += matrix.T
    values, vectors = eigenvectors(matrix, 1, 3)
    whole = linalg.eigh

    def only_whole(matrix, subset_by_index=None, **options):
        if subset_by_index is not None:
            raise np.linalg.LinAlgError("Internal Error.")
        return whole(matrix, **options)

    monkeypatch.setattr(linalg, "eigh", only_whole)
    again, found = eigenvectors(matrix, 1, 3)
    np.testing.assert_allclose(again, values)
    np.testing.assert_allclose(np.abs(vectors.T @ found), np.eye(3), atol=1e-12)
