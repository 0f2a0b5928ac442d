import clarabel
import numpy as np
import pytest
from scipy import sparse

from bagwise.solvers.margin.feature_space import LinearFeatures
from reproduction.rivals import CuttingPlaneMMC, GeneralizedMMC, IterativeSVR
from reproduction.rivals.solvers.iterative_svr import best_threshold, iterative_svr


@pytest.fixture
def clouds(rng):
    X = rng.normal(size=(40, 3))
    X[:16, 0] += 5
    return X


def regression_by_qp(X, y, C):
    """min 1/2 |w|^2 + C sum |y - Xw - b|."""
    n, d = X.shape
    P = sparse.csc_array(sparse.diags_array(np.r_[np.ones(d), np.zeros(1 + n)]))
    q = np.r_[np.zeros(d + 1), np.full(n, C)]
    above = np.hstack([-X, -np.ones((n, 1)), -np.eye(n)])
    below = np.hstack([X, np.ones((n, 1)), -np.eye(n)])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    A, b = sparse.csc_array(np.vstack([above, below])), np.r_[-y, y]
    cones = [clarabel.NonnegativeConeT(2 * n)]
    return np.array(clarabel.DefaultSolver(P, q, A, b, cones, settings).solve().x)[:d]


def threshold_by_loops(scores, balance):
    s = np.sort(scores)
    n = len(s)
    best = (np.inf, None)
    for k in range(1, n):
        if abs(n - 2 * k) <= balance * n + 1e-9 and s[k] > s[k - 1]:
            b = -(s[k - 1] + s[k]) / 2
            best = min(best, (np.abs(1 - np.abs(s + b)).sum(), b))
    return best[::-1]


@pytest.mark.parametrize("balance", [0.0, 0.03, 0.3, 1.0])
def test_the_threshold_is_the_best_of_all(rng, balance):
    for _ in range(20):
        scores = rng.normal(size=40, scale=rng.uniform(0.1, 3))
        np.testing.assert_allclose(
            best_threshold(scores, balance), threshold_by_loops(scores, balance), atol=1e-12
        )


def test_a_round_is_a_regression_and_a_threshold(clouds, rng):
    X = clouds - clouds.mean(axis=0)
    labels = np.where(X[:, 0] + rng.normal(size=40) > 0, 1, -1)
    first = iterative_svr(LinearFeatures(X), labels, C=0.5, balance=0.3, steps=range(1), tol=1e-8)
    w = regression_by_qp(X, labels, 0.5)
    np.testing.assert_allclose(X.T @ first.solution[0], w, atol=1e-4)
    intercept, loss = best_threshold(X @ w, 0.3)
    assert first.objective_curve[0] == pytest.approx(0.5 * w @ w + 0.5 * loss, rel=1e-4)
    assert float(first.solution[1]) == pytest.approx(intercept, abs=1e-3)


def test_at_the_end_labels_come_back(clouds):
    model = IterativeSVR(random_state=0).fit(clouds)
    X = clouds - clouds.mean(axis=0)
    labels = np.where(model.labels_ == 1, 1, -1)
    again = iterative_svr(LinearFeatures(X), labels, C=1.0, balance=0.3, steps=range(1), tol=1e-6)
    scores = X @ (X.T @ again.solution[0]) + again.solution[1]
    np.testing.assert_array_equal(np.where(scores > 0, 1, -1), labels)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("rival", [CuttingPlaneMMC, GeneralizedMMC, IterativeSVR])
def test_distant_clouds_become_clusters_and_new_rows_join_them(clouds, rival, kernel):
    clouds[:16, 0] += 3
    model = rival(kernel=kernel).fit(clouds)
    labels = model.labels_
    assert len(set(labels[:16])) == len(set(labels[16:])) == 1
    assert labels[0] != labels[-1]
    np.testing.assert_array_equal(model.predict(clouds), labels)
