import clarabel
import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import make_moons
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from reproduction.rivals import LaplacianSVM
from reproduction.rivals.solvers import laplacian_svm as solver


@pytest.fixture
def cloud(rng):
    y = np.repeat([0, 1], 12)
    X = rng.normal(size=(24, 3)) + y[:, None]
    partial = np.full(24, -1)
    chosen = np.r_[0:4, 12:16]
    partial[chosen] = y[chosen]
    return X, partial


def by_qp(K, L, signs, C, weight):
    """Belkin's problem over all coefficients: min 1/2 a'Ka + weight/2 a'KLKa + C sum xi."""
    n, known = len(K), np.flatnonzero(signs)
    m = len(known)
    P = np.zeros((n + 1 + m, n + 1 + m))
    P[:n, :n] = K + weight * K @ L @ K + 1e-10 * np.eye(n)
    q = np.r_[np.zeros(n + 1), np.full(m, C)]
    y = signs[known]
    hinge = np.hstack([-y[:, None] * K[known], -y[:, None], -np.eye(m)])
    positive = np.hstack([np.zeros((m, n + 1)), -np.eye(m)])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    found = clarabel.DefaultSolver(
        sparse.csc_array(np.triu(P)),
        q,
        sparse.csc_array(np.vstack([hinge, positive])),
        np.r_[-np.ones(m), np.zeros(m)],
        [clarabel.NonnegativeConeT(2 * m)],
        settings,
    ).solve()
    x = np.array(found.x)
    return K @ x[:n] + x[n], found.obj_val


def laplacian_by_loops(X, k):
    n = len(X)
    edges = np.zeros((n, n))
    for i in range(n):
        near = np.argsort(np.linalg.norm(X - X[i], axis=1))[1 : k + 1]
        edges[i, near] = edges[near, i] = 1
    return np.diag(edges.sum(axis=0)) - edges


@pytest.mark.parametrize(("weight", "C"), [(0.1, 2.0), (5.0, 500.0)])
def test_against_a_qp_over_all_coefficients(cloud, weight, C):
    X, y = cloud
    signs = np.where(y < 0, 0, np.where(y == 1, 1, -1))
    L = laplacian_by_loops(X, 4)
    model = LaplacianSVM(C=C, manifold_weight=weight, n_neighbors=4, gamma=0.3, tol=1e-10)
    scores, objective = by_qp(rbf_kernel(X, gamma=0.3), L, signs, C, weight)
    np.testing.assert_allclose(model.fit(X, y).decision_function(X), scores, atol=2e-4)
    assert model.objective_curve_[-1] == pytest.approx(objective, rel=1e-5)


def test_the_graph_joins_neighbours_either_way(rng):
    X = rng.normal(size=(15, 2))
    found = solver.graph_laplacian(X, 3).toarray()
    np.testing.assert_array_equal(found, laplacian_by_loops(X, 3))
    np.testing.assert_allclose(found.sum(axis=0), 0)
    assert solver.graph_laplacian(X[:2], 5).shape == (2, 2)


@pytest.mark.parametrize("n_features", [3, 40])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_rows_and_their_linear_kernel_agree(rng, n_features, kind):
    X = rng.normal(size=(24, n_features))
    y = np.where(np.arange(24) % 3 == 0, -1, np.arange(24) % 2)
    linear = LaplacianSVM(C=1.0, kernel="linear", tol=1e-10).fit(kind(X), y)
    kernel = LaplacianSVM(C=1.0, kernel=lambda a, b: a @ b, tol=1e-10).fit(X, y)
    found, expected = linear.decision_function(kind(X)), kernel.decision_function(X)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert linear.coef_.shape == (1, n_features)


def test_without_the_graph_it_is_the_ordinary_svm(cloud):
    X, y = cloud
    model = LaplacianSVM(C=1.0, manifold_weight=0.0, tol=1e-10).fit(X, y)
    svm = SVC(tol=1e-10, gamma=model.gamma_).fit(X[y >= 0], y[y >= 0])
    np.testing.assert_allclose(model.decision_function(X), svm.decision_function(X), atol=1e-6)


def test_one_label_per_moon_is_enough():
    X, truth = make_moons(200, noise=0.05, random_state=0)
    y = np.full(200, -1)
    for label in (0, 1):
        y[np.flatnonzero(truth == label)[0]] = label
    plain = LaplacianSVM(manifold_weight=0.0, gamma=10).fit(X, y)
    model = LaplacianSVM(C=1e6, manifold_weight=100, gamma=10).fit(X, y)
    assert np.mean(plain.predict(X) == truth) < 0.95
    np.testing.assert_array_equal(model.transduction_, truth)
