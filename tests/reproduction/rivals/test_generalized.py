from itertools import product

import clarabel
import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from sklearn.metrics.pairwise import rbf_kernel

from reproduction.rivals import GeneralizedMMC
from reproduction.rivals.solvers.generalized_mmc import diagonal_bound


@pytest.fixture
def clouds(rng):
    X = rng.normal(size=(30, 3))
    X[:12, 0] += 6
    return X


def quadratic(K, C, balance):
    """Q of the problem, written out: M = (K + I/C)^-1, minimised over b, plus the balance."""
    n = len(K)
    M = np.linalg.inv(K + np.eye(n) / C)
    one = np.ones(n)
    return M - np.outer(M @ one, M @ one) / (one @ M @ one) + balance * np.outer(one, one) / n


def bound_by_sdp(Q):
    """Maximise 1/2 sum gamma, Q - diag(gamma) in the cone, gamma >= 0, by a general solver."""
    n = len(Q)
    columns, rows = np.triu_indices(n)  # clarabel stacks the upper triangle column by column
    order = np.lexsort((columns, rows))
    i, j = columns[order], rows[order]
    scale = np.where(i == j, 1.0, np.sqrt(2.0))
    A = np.zeros((len(i) + n, n))
    A[np.flatnonzero(i == j), np.arange(n)] = 1.0
    A[len(i) :] = -np.eye(n)
    b = np.concatenate([scale * Q[i, j], np.zeros(n)])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    cones = [clarabel.PSDTriangleConeT(n), clarabel.NonnegativeConeT(n)]
    q, P = -0.5 * np.ones(n), sparse.csc_array((n, n))
    found = clarabel.DefaultSolver(P, q, sparse.csc_array(A), b, cones, settings).solve()
    return -found.obj_val


@pytest.mark.parametrize("C", [0.1, 10.0])
@pytest.mark.parametrize("balance", [0.1, 5.0])
def test_the_bound_is_that_of_a_general_solver(rng, C, balance):
    X = rng.normal(size=(14, 2))
    Q = quadratic(rbf_kernel(X, gamma=0.5), C, balance)
    gamma, W, curve, converged = diagonal_bound(Q, steps=range(200), tol=1e-8)
    assert converged
    assert curve[-1] == pytest.approx(bound_by_sdp(Q), rel=1e-5)
    assert np.linalg.eigvalsh(Q - np.diag(gamma)).min() > -1e-9
    assert gamma.min() >= 0
    assert (np.diagonal(W) >= 1 - 1e-6).all()
    assert 0.5 * np.vdot(Q, W) == pytest.approx(curve[-1], rel=1e-6)


def test_no_clustering_is_below_the_bound(rng):
    """Brute force over all labels, each an SVM with squared slacks solved as a box problem."""
    X = rng.normal(size=(7, 2))
    X[:3] += 3
    Q = quadratic(X @ X.T, 1.0, 1.0)
    best = np.inf
    for signs in product([-1, 1], repeat=6):
        y = np.array([1, *signs])
        # g = y t with t >= 1: a convex problem.
        Qy = Q * np.outer(y, y)
        found = minimize(
            lambda t, Qy=Qy: (0.5 * t @ Qy @ t, Qy @ t),
            np.ones(7),
            jac=True,
            bounds=[(1, None)] * 7,
            options={"ftol": 1e-14, "gtol": 1e-10},
        )
        best = min(best, found.fun)
    model = GeneralizedMMC(C=1.0, balance=1.0, tol=1e-8).fit(X)
    assert model.lower_bound_ <= best * (1 + 1e-6)
    assert model.lower_bound_ > 0.5 * best


def test_lanczos_leads_to_the_same_bound(clouds, monkeypatch):
    Q = quadratic(rbf_kernel(clouds, gamma=0.2), 1.0, 1.0)
    dense = diagonal_bound(Q, steps=range(100), tol=1e-8)
    monkeypatch.setattr("reproduction.rivals.solvers.generalized_mmc.DENSE", 5)
    lanczos = diagonal_bound(Q, steps=range(100), tol=1e-8)
    assert lanczos[3]
    np.testing.assert_allclose(lanczos[0], dense[0], atol=1e-6)
