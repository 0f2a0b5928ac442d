"""MILBoost against a likelihood by loops, brute force over stumps, and scikit-learn's trees."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize_scalar
from scipy.special import expit
from sklearn.tree import DecisionTreeRegressor

from bagwise import Bags
from bagwise.classification import MILBoost
from bagwise.loops import boosted_trees, segments
from bagwise.solvers.likelihood import LONGEST, mil_boost
from cases import each
from checks import example


def objective(scores, offsets, positive):
    total = 0.0
    for a, b, label in zip(offsets[:-1], offsets[1:], positive, strict=True):
        nobody = np.prod(1 - expit(scores[a:b]))
        total -= np.log(1 - nobody if label else nobody)
    return total


def answers_of(X, feature, threshold, leaf):
    """One tree, read off its heap by hand."""
    out = []
    for x in X:
        node = 0
        while node < len(feature):
            node = 2 * node + (1 if x[feature[node]] <= threshold[node] else 2)
        out.append(leaf[node - len(feature)])
    return np.array(out)


def best_stump(X, weights):
    """The largest agreement of any stump with the weights, all splits tried."""
    best = weights.sum() ** 2 / np.abs(weights).sum()
    for column in X.T:
        for value in np.unique(column)[:-1]:
            sides = (weights[column <= value], weights[column > value])
            best = max(best, sum(w.sum() ** 2 / np.abs(w).sum() for w in sides))
    return best


def grow(X, weights, depth):
    columns = np.ascontiguousarray(X.T)
    order = np.argsort(columns, axis=1).astype(np.int32)
    return boosted_trees.grow_tree(columns, order, weights, depth, np.array([0, len(columns)]))


def likelihood(scores, offsets, positive):
    """Minus the log-likelihood, and its negative gradient."""
    gradient = np.empty((len(scores), 1))
    arguments = offsets, positive[:, None], np.ones(len(positive)), scores[:, None], gradient
    value = segments.noisy_or_loss(0, len(positive), *arguments)
    return value, -gradient[:, 0]


@each("seed", range(3))
def test_the_likelihood_and_its_gradient(seed):
    rng = np.random.default_rng(seed)
    offsets, positive = np.array([0, 3, 4, 9]), np.array([True, False, seed != 1])
    scores = rng.normal(scale=2, size=9)
    value, weights = likelihood(scores, offsets, positive)
    assert value == pytest.approx(objective(scores, offsets, positive))
    slopes = approx_fprime(scores, objective, 1e-7, offsets, positive)
    np.testing.assert_allclose(weights, -slopes, atol=1e-5)


def test_extreme_scores_keep_a_likelihood_and_a_gradient():
    offsets = np.array([0, 2, 4])
    scores = np.array([-800.0, -900.0, 800.0, 0.0])
    value, weights = likelihood(scores, offsets, np.array([True, True]))
    assert value == pytest.approx(800.0)
    np.testing.assert_allclose(weights, [1.0, 0.0, 0.0, 0.0], atol=1e-12)
    value, weights = likelihood(scores, offsets, np.array([False, False]))
    assert value == pytest.approx(800 + np.log(2))
    np.testing.assert_allclose(weights, [0.0, 0.0, -1.0, -0.5], atol=1e-12)


@each("seed", range(5))
def test_a_stump_is_the_best_of_all(seed):
    rng = np.random.default_rng(seed)
    X, weights = rng.integers(0, 4, size=(12, 3)).astype(float), rng.normal(size=12)
    feature, threshold, leaf, place = grow(X, weights, 1)
    np.testing.assert_allclose(leaf[place], answers_of(X, feature, threshold, leaf))
    assert weights @ leaf[place] == pytest.approx(best_stump(X, weights))


@each("depth", [1, 2, 3])
def test_trees_agree_with_scikit_learns(rng, depth):
    X, weights = rng.normal(size=(40, 3)), rng.normal(size=40)
    feature, threshold, leaf, _ = grow(X, weights, depth)
    # Weighted least squares on the signs makes the same splits and the same leaves.
    cousin = DecisionTreeRegressor(max_depth=depth, random_state=0)
    cousin.fit(X, np.sign(weights), sample_weight=np.abs(weights))
    np.testing.assert_allclose(answers_of(X, feature, threshold, leaf), cousin.predict(X))


@each("seed", range(3))
def test_rounds_by_hand(seed):
    rng = np.random.default_rng(seed)
    bags = Bags.from_arrays([rng.normal(size=(3, 2)) for _ in range(10)])
    positive = np.arange(10) % 2 == 1
    X, offsets = bags.instances, bags.offsets
    columns = np.ascontiguousarray(X.T)
    given = columns, np.argsort(columns, axis=1).astype(np.int32), offsets, positive
    found = mil_boost(*given, n_estimators=3, max_depth=1, learning_rate=0.7, tol=0.0)
    constant = minimize_scalar(
        lambda c: objective(np.full(30, c), offsets, positive), bounds=(-9, 9), method="bounded"
    )
    scores = np.full(30, constant.x)
    np.testing.assert_allclose(found.solution[0], constant.x, atol=1e-4)
    for k in range(3):
        weights = -approx_fprime(scores, objective, 1e-7, offsets, positive)
        feature, threshold, leaf, _ = grow(X, weights, 1)
        h = answers_of(X, feature, threshold, leaf)
        path = lambda a: objective(scores + a * h, offsets, positive)  # noqa: B023, E731
        step = minimize_scalar(path, bounds=(0, LONGEST), method="bounded").x
        scores = scores + 0.7 * step * h
        assert found.objective_curve[k] == pytest.approx(
            objective(scores, offsets, positive), rel=1e-3
        )


@each("n_classes", [2, 3])
@each("depth", [1, 3])
def test_the_objective_never_rises(n_classes, depth):
    bags, y = example(n_classes=n_classes)
    model = MILBoost(30, max_depth=depth).fit(bags, y)
    assert np.all(np.diff(model.objective_curve_) <= 1e-12)
    assert (model.predict(bags) == y).mean() > 0.9


def test_monotone_changes_of_features_change_nothing():
    bags, y = example()
    bent = bags.with_instances(np.arctan(bags.instances) * [1.0, 5.0, 0.1, 2.0])
    np.testing.assert_allclose(
        MILBoost().fit(bags, y).decision_function(bags),
        MILBoost().fit(bent, y).decision_function(bent),
    )


def test_large_bags_are_not_positive_by_their_size():
    rng = np.random.default_rng(0)
    bags = [rng.normal(size=(60, 2)) for _ in range(20)]
    shares = MILBoost(1, learning_rate=1e-9).fit(bags, np.arange(20) % 2).predict_proba(bags)
    np.testing.assert_allclose(shares, 0.5, atol=1e-3)


def test_a_class_for_which_no_tree_helps_has_its_constant():
    bags, y = example(20, n_classes=3)
    model = MILBoost(tol=10.0).fit(bags, y)
    assert model.n_iter_ == 0
    assert len(model.objective_curve_) == 1
    assert len(np.unique(model.score_instances(bags), axis=0)) == 1
