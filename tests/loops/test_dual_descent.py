"""Dual coordinate descent against a QP on the same small problem."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from sklearn.svm import LinearSVC

from bagwise.loops import dual_descent
from cases import covering, each


def problem(rng, n=14, d=5, n_labels=3, several_rows=False):
    X = rng.normal(size=(n, d))
    X[rng.random(X.shape) < 0.3] = 0.0
    signs = np.repeat(rng.choice([-1, 1], size=(n, 1)), n_labels, axis=1).astype(np.int8)
    signs[: n // 2] = rng.choice([-1, 1], size=(n // 2, n_labels))
    pick = np.arange(n)[:, None]
    if several_rows:
        pick = np.repeat(pick, n_labels, axis=1)
        pick[: n // 2] = rng.integers(n, size=(n // 2, n_labels))
    weights = rng.dirichlet(np.ones(n_labels))
    return X, pick, signs, weights, rng.uniform(0.2, 2.0, size=n)


def dual_matrix(X, constant, pick, signs, weights):
    """sum_t mu_t of the Gram matrices of the signed rows, written out."""
    Z = np.column_stack([X, np.full(len(X), constant)])
    total = np.zeros((len(pick), len(pick)))
    for t, weight in enumerate(weights):
        signed = Z[pick[:, t % pick.shape[1]]] * signs[:, [t]]
        total += weight * signed @ signed.T
    return total


def box_qp(Q, costs):
    """max 1'a - a'Qa / 2 in a box, by a general solver."""
    found = minimize(
        lambda a: (a @ Q @ a / 2 - a.sum(), Q @ a - 1), np.zeros(len(Q)), jac=True,
        bounds=[(0, c) for c in costs], method="L-BFGS-B",
        options={"maxiter": 10_000, "ftol": 1e-15, "gtol": 1e-12},
    )  # fmt: skip
    return -found.fun


def tables(X, constant):
    centre = X.mean(axis=0, dtype=np.float64)
    away = (X + centre).astype(X.dtype)  # centring brings it back
    found = {
        "dense": dual_descent.rows_of(X),
        "sparse": dual_descent.rows_of(sparse.csr_array(X)),
        "gram": dual_descent.gram_rows(X @ X.T),
        "dense centred": dual_descent.rows_of(away, centre),
        "sparse centred": dual_descent.rows_of(sparse.csr_array(away), centre),
    }
    return {kind: dual_descent.with_constant(rows, constant) for kind, rows in found.items()}


KINDS = ["dense", "sparse", "gram", "dense centred", "sparse centred"]


@covering(kind=KINDS, several_rows=[False, True], constant=[0.0, 1.5], least_group=[0.0, 0.6, 1e9])
def test_descent_solves_the_dual(rng, kind, several_rows, constant, least_group, monkeypatch):
    monkeypatch.setattr(dual_descent, "LEAST_GROUP", least_group)
    X, pick, signs, weights, costs = problem(rng, several_rows=several_rows)
    rows = tables(X, constant)[kind]
    alpha, f, E = np.zeros(len(X)), np.zeros(rows.width), np.zeros((rows.width, 3))
    found = dual_descent.descend(
        rows, pick, signs, weights, costs, alpha, f, E,
        order=np.arange(len(X)), tol=1e-10, max_passes=100_000,
    )  # fmt: skip
    Q = dual_matrix(X, constant, pick, signs, weights)
    dual = alpha.sum() - alpha @ Q @ alpha / 2
    assert (alpha >= 0).all()
    assert (alpha <= costs).all()
    assert dual == pytest.approx(box_qp(Q, costs), rel=1e-8)
    assert found.primal == pytest.approx(dual, rel=1e-8)
    # The state belongs to the variables: v_t = f + E_t, and f is their mean.
    for t in range(3):
        coef = np.bincount(pick[:, t % pick.shape[1]], alpha * signs[:, t], len(X))
        v = dual_descent.combine(rows, coef)
        np.testing.assert_allclose(f + E[:, t], v, atol=1e-9)
        K = X @ X.T + constant**2
        assert dual_descent.square(rows, coef, v) == pytest.approx(coef @ K @ coef, rel=1e-9)
    np.testing.assert_allclose(E @ weights, 0, atol=1e-9)


def test_one_label_vector_is_the_ordinary_svm(rng):
    X = rng.normal(size=(80, 6))
    y = np.where(X[:, 0] + rng.normal(size=80) > 0, 1, -1).astype(np.int8)
    costs = rng.uniform(0.1, 1, size=80)
    alpha, f = np.zeros(80), np.zeros(7)
    dual_descent.descend(
        dual_descent.rows_of(X), np.arange(80)[:, None], y[:, None], np.ones(1), costs, alpha, f,
        np.empty((7, 0)), order=np.arange(80), tol=1e-9, max_passes=100_000,
    )  # fmt: skip
    other = LinearSVC(loss="hinge", fit_intercept=False, tol=1e-9, max_iter=1_000_000)
    other.fit(X, y, sample_weight=costs)
    np.testing.assert_allclose(f[:-1], other.coef_[0], rtol=1e-4, atol=1e-5)


def test_warm_start_ends_at_once(rng):
    X, pick, signs, weights, costs = problem(rng)
    rows = dual_descent.rows_of(X)
    state = np.zeros(len(X)), np.zeros(6), np.zeros((6, 3))
    options = {"order": np.arange(len(X)), "max_passes": 100_000}
    dual_descent.descend(rows, pick, signs, weights, costs, *state, tol=1e-9, **options)
    again = dual_descent.descend(rows, pick, signs, weights, costs, *state, tol=1e-6, **options)
    assert again.n_passes == 1


def test_budget_is_kept(rng):
    X, pick, signs, weights, costs = problem(rng)
    state = np.zeros(len(X)), np.zeros(6), np.zeros((6, 3))
    found = dual_descent.descend(
        dual_descent.rows_of(X), pick, signs, weights, 100 * costs, *state,
        order=np.arange(len(X)), tol=1e-12, max_passes=2,
    )  # fmt: skip
    assert found.n_passes == 2
    assert found.gap > 0


def test_rows_of_zeros_take_their_whole_cost():
    alpha, f = np.zeros(2), np.zeros(3)
    dual_descent.descend(
        dual_descent.rows_of(np.zeros((2, 2))), np.arange(2)[:, None], np.ones((2, 1), np.int8),
        np.ones(1), np.array([1.0, 2.0]), alpha, f, np.empty((3, 0)), order=np.arange(2),
        tol=1e-9, max_passes=10,
    )  # fmt: skip
    assert alpha.tolist() == [1.0, 2.0]


@each("constant", [0.0, 2.0])
@each("dtype", [np.float64, np.float32])
def test_scores_and_combinations(rng, constant, dtype):
    X = rng.normal(size=(30, 4)).astype(dtype)
    coef = rng.normal(size=30)
    Z = np.column_stack([X, np.full(30, constant)])
    for rows in tables(X, constant).values():
        vector = dual_descent.combine(rows, coef)
        scores = dual_descent.score(rows, vector)
        np.testing.assert_allclose(scores, Z @ (Z.T @ coef), rtol=1e-4, atol=1e-4)
        if rows.kind == dual_descent.DENSE:
            np.testing.assert_allclose(vector, Z.T @ coef, rtol=1e-4, atol=1e-4)
