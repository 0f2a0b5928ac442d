"""MildML against a literal implementation of its objective."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from sklearn.exceptions import ConvergenceWarning

from bagwise import Bags
from bagwise.exceptions import InputError, LabelError
from bagwise.loops.set_distances import closest_instances
from bagwise.metric_learning import MildML
from bagwise.pairwise import bag_distances
from bagwise.solvers.metric.bag_metrics import pair_loss, sample_pairs
from cases import each


def example(n_bags=14, seed=0):
    """The first two of four features tell the labels apart, the others only vary."""
    rng = np.random.default_rng(seed)
    label_sets = np.zeros((n_bags, 3), dtype=np.int8)
    arrays = []
    for row in label_sets:
        labels = rng.choice(3, rng.integers(1, 3), replace=False)
        row[labels] = 1
        told = 3 * np.eye(3)[labels, :2] + 0.3 * rng.normal(size=(len(labels), 2))
        arrays.append(np.hstack([told, 2 * rng.normal(size=(len(labels), 2))]))
    return Bags.from_arrays(arrays), label_sets


def slow_loss(L, b, bags, label_sets, reg):
    losses = {True: [], False: []}
    for i in range(len(bags)):
        for j in range(i + 1, len(bags)):
            share = bool((label_sets[i] & label_sets[j]).any())
            d2 = min(np.sum((L @ (x - y)) ** 2) for x in bags[i] for y in bags[j])
            losses[share].append(np.log1p(np.exp((d2 - b) if share else (b - d2))))
    return sum(np.mean(part) for part in losses.values()) / 2 + reg / 2 * np.sum(L**2)


def test_loss_and_gradient_are_those_of_the_objective():
    bags, label_sets = example()
    rng = np.random.RandomState(0)
    pairs = sample_pairs(label_sets, 10_000, rng)
    for rank in (1, 3):
        L, b = rng.normal(size=(rank, 4)), 0.7
        point = np.append(L, b)
        loss, gradient = pair_loss(point, bags.instances, bags.offsets, pairs, 0.3)
        np.testing.assert_allclose(loss, slow_loss(L, b, bags, label_sets, 0.3))
        numeric = approx_fprime(
            point,
            lambda p, shape=L.shape: slow_loss(p[:-1].reshape(shape), p[-1], bags, label_sets, 0.3),
            1e-6,
        )
        np.testing.assert_allclose(gradient, numeric, atol=2e-5)


def test_objective_never_rises_and_the_metric_finds_what_tells():
    bags, label_sets = example(n_bags=60)
    model = MildML().fit(bags, label_sets)
    assert (np.diff(model.objective_curve_) <= 1e-12).all()
    np.testing.assert_allclose(
        model.objective_curve_[-1],
        slow_loss(model.components_, model.threshold_, bags, label_sets, model.reg),
    )
    M = model.components_.T @ model.components_
    assert M.diagonal()[:2].min() > 5 * M.diagonal()[2:].max()
    share = (label_sets @ label_sets.T > 0)[np.triu_indices(60, 1)]
    learned = bag_distances(model.transform(bags))[np.triu_indices(60, 1)] ** 2
    assert np.mean((learned < model.threshold_) == share) > 0.9


def test_few_pairs_are_all_taken_and_many_are_drawn_half_and_half():
    rng = np.random.default_rng(0)
    label_sets = rng.integers(0, 2, (40, 3)).astype(np.int8)
    first, second, share = sample_pairs(label_sets, 780, np.random.RandomState(0))
    assert len(first) == 780
    np.testing.assert_array_equal(share, (label_sets[first] & label_sets[second]).any(axis=1))
    first, second, share = sample_pairs(label_sets, 200, np.random.RandomState(0))
    assert share.sum() == (~share).sum() == 100
    assert len({*zip(first, second, strict=True)}) == 200
    assert (first < second).all()
    np.testing.assert_array_equal(share, (label_sets[first] & label_sets[second]).any(axis=1))


def test_rank_of_the_map_and_unknown_label_sets():
    bags, label_sets = example(n_bags=30)
    label_sets[7] = -1
    known = np.arange(30) != 7
    model = MildML(n_components=2).fit(bags, label_sets)
    assert model.components_.shape == (2, 4)
    without = MildML(n_components=2).fit(bags[known], label_sets[known])
    np.testing.assert_array_equal(model.components_, without.components_)


def test_both_kinds_of_pairs_are_needed():
    bags, label_sets = example()
    with pytest.raises(LabelError, match="no two bags share a label"):
        MildML().fit(bags, np.zeros_like(label_sets))
    with pytest.raises(LabelError, match="all two bags share a label"):
        MildML().fit(bags, np.ones_like(label_sets))


def test_pairs_are_drawn_alike_whatever_the_order_of_bags_with_equal_features():
    bags, label_sets = example(30)
    bags = bags.with_instances(np.hstack([np.zeros((bags.n_instances, 8)), bags.instances]))
    order = np.random.default_rng(1).permutation(30)
    model = MildML(n_pairs=40, random_state=0)
    plain = model.fit(bags, label_sets).components_
    np.testing.assert_allclose(model.fit(bags[order], label_sets[order]).components_, plain)


@each(("factor", "shift"), [(1e-30, 0.0), (1e50, 0.0), (1.0, 1e8)])
def test_unit_and_origin_of_the_features_do_not_matter(factor, shift):
    """Only `reg` has a unit: without it the metric is the same, in the new unit."""
    bags, label_sets = example(n_bags=30)
    plain = MildML(reg=0, max_iter=5)
    moved = bags.with_instances(bags.instances * factor + shift)
    with pytest.warns(ConvergenceWarning):
        L = plain.fit(bags, label_sets).components_
    with pytest.warns(ConvergenceWarning):
        again = MildML(reg=0, max_iter=5).fit(moved, label_sets).components_ * factor
    np.testing.assert_allclose(again.T @ again, L.T @ L, rtol=1e-4, atol=1e-5)


def test_equal_instances_are_refused():
    bags, label_sets = example()
    with pytest.raises(InputError, match="instances are equal"):
        MildML().fit(bags.with_instances(np.full(bags.instances.shape, 0.7)), label_sets)


def test_a_penalty_beyond_the_range_of_floats_is_refused():
    bags, label_sets = example()
    with pytest.raises(InputError, match="exceeds the range"):
        MildML(reg=1e300).fit(bags, label_sets)


def test_closest_instances_without_a_distance_are_instances_of_the_bags():
    """Memory that nobody had written was returned as rows."""
    points, offsets = np.full((4, 2), np.nan), np.array([0, 2, 4])
    left, right = closest_instances(points, offsets, np.array([0]), np.array([1]))
    assert (left.tolist(), right.tolist()) == ([0], [2])
