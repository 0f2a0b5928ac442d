"""MILES against its linear program, written out in full, and its embedding against loops."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import linprog

from bagwise import Bags
from bagwise.classification import MILES
from bagwise.embedding import InstanceSimilarity
from bagwise.solvers.bag_tables import l1_svm
from cases import each
from checks import example


def similarities(bags, prototypes, gamma):
    return np.array(
        [
            [max(np.exp(-gamma * np.sum((x - z) ** 2)) for x in bag) for z in prototypes]
            for bag in bags
        ]
    )


def optimum(M, y, costs):
    """The whole program at once."""
    n, k = M.shape
    cost = np.concatenate([np.ones(2 * k), [0], costs])
    table = np.hstack([-y[:, None] * M, y[:, None] * M, -y[:, None], -np.eye(n)])
    bounds = [(0, None)] * (2 * k) + [(None, None)] + [(0, None)] * n
    return linprog(cost, table, -np.ones(n), bounds=bounds).fun


def objective(M, y, costs, w, b):
    return np.abs(w).sum() + costs @ np.maximum(0, 1 - y * (M @ w + b))


@each("seed", range(5))
@each("C", [0.05, 0.5, 5.0])
def test_column_generation_solves_the_whole_program(seed, C):
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(15) % 3, 1.0, -1.0)
    M = rng.normal(size=(15, 200)) + 0.2 * y[:, None]
    costs = C * rng.uniform(0.5, 1.5, 15)
    result = l1_svm(M, y > 0, costs)
    expected = optimum(M, y, costs)
    assert result.objective_curve[-1] == pytest.approx(expected, rel=1e-7)
    assert objective(M, y, costs, *result.solution) == pytest.approx(expected, rel=1e-7)
    assert np.all(np.diff(result.objective_curve) <= 1e-9)


@each("seed", range(10))
def test_costs_of_very_different_sizes_are_solved(seed):
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(15) % 3, 1.0, -1.0)
    M, costs = rng.normal(size=(15, 60)), 10 ** rng.uniform(-6, 6, 15)
    result = l1_svm(M, y > 0, costs)
    assert result.converged
    assert result.objective_curve[-1] == pytest.approx(optimum(M, y, costs), rel=1e-6)


def test_duplicate_columns_and_separable_rows_are_solved():
    rng = np.random.default_rng(0)
    y = np.where(np.arange(12) % 2, 1.0, -1.0)
    M = np.repeat(rng.normal(size=(12, 20)), 2, axis=1)
    for C in (1e-6, 1.0, 1e6):
        result = l1_svm(M, y > 0, np.full(12, C))
        expected = optimum(M, y, np.full(12, C))
        assert objective(M, y, C * np.ones(12), *result.solution) == pytest.approx(expected, 1e-6)


def test_many_similarities_are_to_drawn_prototypes(rng):
    """1,000 bags of four instances: 4,000,000 similarities, more than the 3,000,000 of "auto"."""
    y = np.arange(1_000) % 2
    rows = rng.normal(size=(4_000, 2)) + 3 * np.repeat(y, 4)[:, None]
    bags = Bags(rows, np.arange(0, 4_001, 4))
    found, drawn = MILES().fit(bags, y), MILES(n_prototypes=500).fit(bags, y)
    np.testing.assert_array_equal(found.prototypes_, drawn.prototypes_)
    assert np.mean(found.predict(bags) == y) > 0.95


def test_of_equally_good_intercepts_the_middle_is_taken():
    M = np.zeros((4, 2))  # nothing to learn: every intercept between -1 and 1 costs the same
    result = l1_svm(M, np.array([True, False, True, False]), np.ones(4))
    assert result.solution[1] == 0
    assert result.objective_curve[-1] == pytest.approx(4)


def test_the_majority_wins_where_there_is_nothing_to_learn():
    same = [np.ones((2, 2))] * 5
    model = MILES().fit(same, [0, 1, 1, 1, 0])
    assert model.coef_.shape == (1, 0)
    np.testing.assert_allclose(model.decision_function(same), 1.0)


def test_the_embedding_by_loops():
    bags, _ = example(6)
    test, _ = example(4, seed=1)
    model = InstanceSimilarity(gamma=0.3).fit(bags)
    assert model.prototypes_.shape == (bags.n_instances, 4)
    np.testing.assert_allclose(
        model.transform(test), similarities(test, model.prototypes_, 0.3), rtol=1e-10
    )


def test_scores_are_the_program_on_the_embedding():
    bags, y = example()
    model = MILES(C=2.0, gamma=0.2).fit(bags, y)
    signs = np.where(y == "q", 1.0, -1.0)
    M = similarities(bags, np.unique(bags.instances, axis=0), 0.2)
    assert model.objective_curve_[-1] == pytest.approx(optimum(M, signs, np.full(24, 2.0)))
    test, _ = example(5, seed=1)
    chosen = similarities(test, model.prototypes_, 0.2)
    expected = chosen @ model.coef_[0] + model.intercept_[0]
    np.testing.assert_allclose(model.decision_function(test), expected)


def test_an_instance_brings_what_it_is_nearest_to():
    bags, y = example()
    model = MILES(gamma=0.2).fit(bags, y)
    bag = bags[1]
    near = np.exp(-0.2 * ((bag[:, None] - model.prototypes_) ** 2).sum(axis=2))
    expected = np.full(len(bag), model.intercept_[0])
    for k, j in enumerate(near.argmax(axis=0)):
        expected[j] += len(bag) * model.coef_[0, k] * near[j, k]
    np.testing.assert_allclose(model.score_instances([bag]), expected)


def test_equally_near_instances_share():
    bags, y = example()
    model = MILES(gamma=0.2).fit(bags, y)
    twice = np.repeat(bags[1], 2, axis=0)
    once, doubled = model.score_instances([bags[1]]), model.score_instances([twice])
    np.testing.assert_allclose(doubled, np.repeat(once, 2))


@each("cls", [MILES, InstanceSimilarity])
def test_sparse_and_dense_instances_agree(cls):
    bags, y = example()
    rows = np.where(np.abs(bags.instances) < 0.5, 0.0, bags.instances)
    dense, thin = bags.with_instances(rows), bags.with_instances(sparse.csr_array(rows))
    found, expected = cls().fit(thin, y), cls().fit(dense, y)
    if cls is MILES:
        np.testing.assert_allclose(
            found.decision_function(thin), expected.decision_function(dense), atol=1e-6
        )
    else:
        np.testing.assert_allclose(
            np.sort(found.transform(thin)), np.sort(expected.transform(dense)), atol=1e-8
        )


def test_prototypes_are_the_same_for_dense_and_sparse_tables_of_any_precision(rng):
    table = rng.integers(-2, 3, size=(30, 4)).astype(np.float64)
    bags = Bags(table, np.arange(0, 31, 3))
    expected = InstanceSimilarity().fit_transform(bags)
    thin = sparse.csr_array(table)
    for same in (table.astype(np.float32), thin, thin.astype(np.float32)):
        found = InstanceSimilarity().fit_transform(bags.with_instances(same))
        np.testing.assert_allclose(found, expected, atol=1e-6)
