"""The one-sided primal-dual MI-SVM against brute force, bag by bag and iteration by iteration."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from bagwise import Bags
from bagwise.loops import one_sided as kernel
from bagwise.solvers.margin.one_sided import one_sided
from bagwise.solvers.margin.primal_dual import KernelSpace, LinearSpace
from cases import covering, each
from one_sided_oracle import (
    DenseOneSided,
    copy_by_scan,
    copy_by_subsets,
    copy_cost,
    hinge_prox,
    objective,
)

numbers = st.floats(-4, 4).map(lambda x: round(x, 2))


def draw(seed, n_bags=14, d=4, n_columns=3, strength=2.0):
    """Bags of 1 to 5 instances; column m of the signs is about feature m."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 6, n_bags))])
    signs = np.where((np.arange(n_bags)[:, None] + np.arange(n_columns)) % 3 == 0, 1.0, -1.0)
    X = rng.normal(size=(offsets[-1], d))
    X[offsets[:-1], :n_columns] += strength * (signs > 0)
    return X, offsets, signs


def first_W(X, offsets, signs, weights):
    """The difference of the means of instances, of length 1e-3."""
    rows = np.repeat(np.arange(len(signs)), np.diff(offsets))
    W = []
    for sign in signs.T:
        up, down = (weights * (sign == kind) for kind in (1, -1))
        W.append(up[rows] @ X / up[rows].sum() - down[rows] @ X / down[rows].sum())
    W = np.array(W)
    return 1e-3 * W / np.linalg.norm(W, axis=1, keepdims=True)


def solve(bags, signs, **options):
    given = {"C": 1.0, "mu": 1e-2, "rho": 1.05, "max_iter": 40, "tol": 0.0, "exact": True}
    given |= {"weights": np.ones(len(signs))} | options
    space = bags if isinstance(bags, LinearSpace) else LinearSpace(bags)
    return one_sided(space, signs, **given)


@settings(max_examples=150, deadline=None)
@given(st.lists(numbers, min_size=1, max_size=6), numbers)
def test_the_copy_of_the_scores_is_the_best_of_all_subsets(phi, wanted):
    phi = np.array(phi)
    lowest = copy_by_subsets(phi, wanted)
    assert copy_cost(copy_by_scan(phi, wanted), phi, wanted) == pytest.approx(lowest, abs=1e-12)
    if wanted < phi.max():
        found = np.minimum(phi, kernel.clip_level(phi, wanted))
        assert copy_cost(found, phi, wanted) == pytest.approx(lowest, abs=1e-12)


@given(numbers, st.sampled_from([-1.0, 1.0]), st.floats(0.01, 5))
def test_the_margin_is_the_proximal_point_of_the_hinge(value, sign, threshold):
    found = kernel.near_margin(value, sign, threshold)
    assert found == pytest.approx(hinge_prox(value, sign, threshold), abs=1e-12)
    cost = threshold * max(0, 1 - sign * found) + (found - value) ** 2 / 2
    around = np.linspace(-10, 10, 2001)
    others = threshold * np.maximum(0, 1 - sign * around) + (around - value) ** 2 / 2
    assert cost <= others.min() + 1e-12


@each("block", ["W", "b", "q", "t"])
def test_each_update_minimises_the_augmented_lagrangian(block, rng):
    X, offsets, signs = draw(3)
    W = 0.1 * rng.normal(size=(3, 4))
    dense = DenseOneSided(X, offsets, signs, W, C=1.0, mu=0.3, rho=1.1)
    for _ in range(5):
        dense.step()
    getattr(dense, f"update_{block}")()
    lowest, found = dense.lagrangian(), getattr(dense, block).copy()
    for size in (1e-3, 1e-1, 1.0):
        for _ in range(20):
            setattr(dense, block, found + size * rng.normal(size=found.shape))
            assert dense.lagrangian() >= lowest - 1e-9


@covering(exact=[True, False], seed=range(3), convert=[np.asarray, sparse.csr_array])
def test_iterations_are_those_of_the_dense_algorithm(seed, exact, convert, rng):
    X, offsets, signs = draw(seed)
    weights = rng.uniform(0.5, 2, len(signs))
    W = first_W(X, offsets, signs, weights)
    dense = DenseOneSided(
        X, offsets, signs, W, C=1.0, mu=1e-2, rho=1.05, inexact=not exact, weights=weights
    )
    residuals = [dense.step() for _ in range(40)]
    found = solve(Bags(convert(X), offsets), signs, exact=exact, weights=weights)
    np.testing.assert_allclose(found.solution[0], dense.W, atol=1e-8)
    np.testing.assert_allclose(found.solution[1], dense.b, atol=1e-8)
    np.testing.assert_allclose(found.residuals, residuals, atol=1e-8)
    expected = objective(dense.W, dense.b, X, offsets, signs, 1.0, weights)
    assert found.objective_curve[-1] == pytest.approx(expected)


@each("exact", [True, False])
def test_the_linear_kernel_gives_the_primal_run(exact):
    X, offsets, signs = draw(1)
    W, b = solve(Bags(X, offsets), signs, exact=exact).solution
    A, b_dual = solve(KernelSpace(Bags(X @ X.T, offsets)), signs, exact=exact).solution
    np.testing.assert_allclose(A @ X, W, atol=1e-8)
    np.testing.assert_allclose(b_dual, b, atol=1e-8)
