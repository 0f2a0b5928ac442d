"""DD and EM-DD against likelihoods computed by loops and scipy's optimisers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import approx_fprime, minimize

from bagwise import Bags
from bagwise.base import in_canonical_order
from bagwise.classification import EMDD, DiverseDensity
from bagwise.loops import diverse_density, segments, set_distances
from bagwise.loops.ties import row_ranks
from bagwise.validation import check_bag_labels
from cases import covering, each
from checks import example

CERTAIN = 1e-8  # the model's own floor of a distance


def probability(x, z):
    t, s = np.split(z, 2)
    return np.exp(-np.sum(s**2 * (x - t) ** 2) - CERTAIN)


def noisy_or_objective(z, bags, positive):
    total = 0.0
    for bag, label in zip(bags, positive, strict=True):
        nobody = sum(np.log1p(-probability(x, z)) for x in bag)  # its logarithm
        total -= np.log(max(-np.expm1(nobody), 1e-300)) if label else nobody
    return total


def nearest_objective(z, bags, positive):
    total = 0.0
    for bag, label in zip(bags, positive, strict=True):
        best = max(probability(x, z) for x in bag)
        total -= np.log(max(best, 1e-300)) if label else np.log1p(-best)
    return total


def em_dd_by_scipy(z, bags, positive):
    """The rounds of the paper, word for word."""
    before, now = np.inf, nearest_objective(z, bags, positive)
    while now < before:
        chosen = [[max(bag, key=lambda x: probability(x, z))] for bag in bags]
        new = minimize(nearest_objective, z, (chosen, positive), method="L-BFGS-B").x
        before, now = now, nearest_objective(new, bags, positive)
        z = new if now < before else z
    return min(before, now)


def tiny(seed, n_features=2):
    rng = np.random.default_rng(seed)
    y = np.arange(8) % 2
    arrays = [rng.normal(size=(3, n_features)) for _ in y]
    for array, label in zip(arrays, y, strict=True):
        array[0] += 2.0 * label
    return Bags.from_arrays(arrays), y


def with_concept(seed, n_features):
    """Bags whose best optimum is wide: every descent ends there, however it rounds."""
    rng = np.random.default_rng(seed)
    y = np.arange(8) % 2
    arrays = [rng.normal(size=(3, n_features)) for _ in y]
    for array in arrays[1::2]:
        array[0] = 2.0 + 0.3 * array[0]
    return Bags.from_arrays(arrays), y


def all_starts(bags, y):
    points = np.vstack([bag for bag, label in zip(bags, y, strict=True) if label])
    root = np.sqrt(1 / (2 * bags.instances.var()))
    return [np.concatenate([point, np.full(len(point), root)]) for point in points]


def value_and_gradient(X, offsets, positive, z):
    gradient, rows, work = np.empty_like(z), np.arange(len(X)), np.empty(len(X))
    return diverse_density._density(X, rows, offsets, positive, z, gradient, work), gradient


@covering(seed=range(3), scale=[0.3, 1.0], n_features=[2, 4, 11])
def test_the_objective_and_its_gradient(seed, scale, n_features):
    bags, y = tiny(seed, n_features)
    scale *= np.sqrt(2 / n_features)
    z = np.random.default_rng(seed + 100).normal(scale=scale, size=2 * n_features)
    value, gradient = value_and_gradient(bags.instances, bags.offsets, y == 1, z)
    assert value == pytest.approx(noisy_or_objective(z, bags, y), rel=1e-7)
    slopes = approx_fprime(z, noisy_or_objective, 1e-6, bags, y)
    np.testing.assert_allclose(gradient, slopes, rtol=1e-3, atol=1e-4 * np.abs(slopes).max())


def test_far_bags_keep_a_value_and_a_slope():
    X = np.array([[50.0], [60.0]])
    z = np.array([0.0, 1.0])
    value, gradient = value_and_gradient(X, np.array([0, 2]), np.array([True]), z)
    assert value == pytest.approx(2500)  # -log(exp(-2500) + exp(-3600))
    np.testing.assert_allclose(gradient, [-100.0, 5000.0])


@each(("seed", "n_features"), [(0, 2), (1, 2), (0, 5)])
def test_diverse_density_ends_as_deep_as_scipy(seed, n_features):
    bags, y = with_concept(seed, n_features)
    deepest = min(
        minimize(noisy_or_objective, z, (bags, y), method="L-BFGS-B").fun
        for z in all_starts(bags, y)
    )
    model = DiverseDensity(tol=1e-9, max_iter=1000).fit(bags, y)
    z = np.concatenate([model.concepts_[0], np.sqrt(model.weights_[0])])
    assert model.objective_curve_[-1] == pytest.approx(noisy_or_objective(z, bags, y), rel=1e-6)
    assert model.objective_curve_[-1] == pytest.approx(deepest, rel=1e-4)


@each(("seed", "n_features"), [(0, 2), (1, 2), (0, 5)])
def test_em_dd_ends_as_deep_as_its_rounds_by_scipy(seed, n_features):
    bags, y = with_concept(seed, n_features)
    deepest = min(em_dd_by_scipy(z, bags, y) for z in all_starts(bags, y))
    model = EMDD(tol=1e-9, max_iter=1000).fit(bags, y)
    z = np.concatenate([model.concepts_[0], np.sqrt(model.weights_[0])])
    assert model.objective_curve_[-1] == pytest.approx(nearest_objective(z, bags, y), rel=1e-6)
    assert model.objective_curve_[-1] == pytest.approx(deepest, rel=1e-4)


@each("model", [DiverseDensity(), EMDD()])
@each("n_classes", [2, 3])
def test_the_objective_never_rises(model, n_classes):
    bags, y = example(n_classes=n_classes)
    curve = model.fit(bags, y).objective_curve_
    assert len(curve) >= model.n_iter_
    assert np.all(np.diff(curve) <= 0)


@each("cls", [DiverseDensity, EMDD])
def test_a_planted_concept_is_found(cls, rng):
    y = np.arange(40) % 2
    bags = [rng.uniform(-5, 5, size=(4, 3)) for _ in y]
    for bag, label in zip(bags, y, strict=True):
        if label:  # the third feature is noise
            bag[2, :2] = [1.0, -2.0] + 0.1 * rng.normal(size=2)
    model = cls().fit(bags, y)
    np.testing.assert_allclose(model.concepts_[0, :2], [1.0, -2.0], atol=0.2)
    assert model.weights_[0, 2] < 0.01 * model.weights_[0, :2].min()
    assert np.mean(model.key_instances(bags)[y == 1] == 2) >= 0.9


@each("cls", [DiverseDensity, EMDD])
def test_fewer_starts_are_drawn_from_the_positive_bags(cls):
    bags, y = example()
    few = cls(n_start_bags=2, random_state=0).fit(bags, y)
    again = cls(n_start_bags=2, random_state=0).fit(bags, y)
    np.testing.assert_array_equal(few.concepts_, again.concepts_)
    assert few.objective_curve_[-1] >= cls().fit(bags, y).objective_curve_[-1]


@each("cls", [DiverseDensity, EMDD])
def test_equal_instances_in_both_classes_give_finite_scores(cls):
    same = [np.ones((2, 2))] * 6
    model = cls().fit(same, [0, 1] * 3)
    assert np.isfinite(model.decision_function(same)).all()
    assert np.isfinite(model.decision_function([1e6 * np.ones((3, 2))])).all()


@each("cls", [DiverseDensity, EMDD])
def test_a_constant_feature_keeps_its_value_and_first_weight(cls):
    bags, y = example()
    wide = bags.with_instances(np.insert(bags.instances, 2, 7.0, axis=1))
    plain, found = cls(gamma=0.3).fit(bags, y), cls(gamma=0.3).fit(wide, y)
    np.testing.assert_array_equal(found.concepts_, np.insert(plain.concepts_, 2, 7.0, axis=1))
    np.testing.assert_array_equal(found.weights_, np.insert(plain.weights_, 2, 0.3, axis=1))


@given(st.lists(st.lists(st.floats(-20, 20), min_size=1, max_size=4), min_size=1, max_size=4))
@settings(deadline=None, max_examples=50)
def test_noisy_or_equals_the_product(lists):
    odds = np.concatenate(lists)
    offsets = np.cumsum([0, *map(len, lists)])
    expected = [
        -np.log(-np.expm1(-np.sum(np.logaddexp(0, v)))) - np.sum(np.logaddexp(0, v)) for v in lists
    ]
    np.testing.assert_allclose(segments.noisy_or(odds, offsets), np.negative(expected), atol=1e-9)


def test_noisy_or_of_extreme_odds():
    odds = np.array([-1000.0, -1000.0, 1000.0, -5.0, 3.0])
    found = segments.noisy_or(odds, [0, 2, 4, 5])
    np.testing.assert_allclose(found, [-1000 + np.log(2), 1000 + np.log1p(np.exp(-5)), 3])


@each("wrap", [np.asarray, sparse.csr_array])
def test_the_canonical_order_forgets_the_order(wrap):
    rng = np.random.default_rng(0)
    arrays = [rng.integers(0, 2, size=(rng.integers(1, 4), 2)).astype(float) for _ in range(12)]
    codes = rng.integers(0, 2, 12)
    order = rng.permutation(12)
    mixed = [arrays[i][rng.permutation(len(arrays[i]))] for i in order]
    found = []
    for list_of_bags, labels in ((arrays, codes), (mixed, codes[order])):
        flat = Bags.from_arrays(list_of_bags)
        bags, sorted_labels = in_canonical_order(
            flat.with_instances(wrap(flat.instances)), check_bag_labels(labels, flat)
        )
        rows = bags.instances.toarray() if wrap is sparse.csr_array else bags.instances
        names = sorted_labels.classes[sorted_labels.codes]
        # Each bag keeps its label: the pairs of instances and label are those of before.
        pairs = [
            sorted((np.sort(part, axis=0).tolist(), k) for part, k in zip(*each, strict=True))
            for each in ((bags.split(rows), names), (list_of_bags, labels))
        ]
        assert pairs[0] == pairs[1]
        found.append((rows, bags.offsets, names))
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)


def test_ranks_of_sparse_rows_know_equal_rows(rng):
    table = rng.integers(0, 2, size=(20, 3)).astype(float)
    dense, thin = row_ranks(table), row_ranks(sparse.csr_array(table))
    np.testing.assert_array_equal(dense[:, None] == dense, thin[:, None] == thin)


@each("value", [np.nan, np.inf, 1e200])
def test_searches_stay_in_bounds_where_no_distance_is_a_number(value):
    X, offsets = np.full((4, 2), value), np.array([0, 2, 4])
    pairs = np.zeros(3, np.int64), np.ones(3, np.int64)
    found = set_distances.closest_instances(X, offsets, *pairs, np.arange(5))[1]
    assert found.tolist() == [2, 2, 2]
    start, curve = np.append(-X[0], np.ones(2)), np.empty(2)
    positive = np.array([True, False])
    n_rounds, _ = diverse_density.minimise_in_rounds(X, offsets, positive, start, curve, 2, 1e-6)
    assert 1 <= n_rounds <= 2
