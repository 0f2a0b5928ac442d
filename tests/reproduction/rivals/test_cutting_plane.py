import clarabel
import numpy as np
import pytest
from scipy import sparse

from bagwise.solvers.margin.feature_space import KernelFeatures, LinearFeatures
from reproduction.rivals.solvers.cutting_plane_mmc import cutting_plane_mmc, signed_svm
from reproduction.rivals.solvers.small_qp import solve_small_qp


@pytest.fixture
def clouds(rng):
    X = rng.normal(size=(40, 3))
    X[:16, 0] += 5
    return X


def signed_by_qp(X, z, C, balance):
    """min 1/2 |w|^2 + C sum (1 - z f)_+ with |mean f| <= l, one slack per row."""
    n, d = X.shape
    P = sparse.csc_array(sparse.diags_array(np.r_[np.ones(d), np.zeros(1 + n)]))
    q = np.r_[np.zeros(d + 1), np.full(n, C)]
    hinge = np.hstack([-z[:, None] * X, -z[:, None], -np.eye(n)])
    positive = np.hstack([np.zeros((n, d + 1)), -np.eye(n)])
    mean = np.r_[X.mean(axis=0), 1.0, np.zeros(n)]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    A = sparse.csc_array(np.vstack([hinge, positive, mean, -mean]))
    b = np.r_[-np.ones(n), np.zeros(n), balance, balance]
    cones = [clarabel.NonnegativeConeT(2 * n + 2)]
    found = clarabel.DefaultSolver(P, q, A, b, cones, settings).solve()
    x = np.array(found.x)
    return x[:d], x[d], found.obj_val


@pytest.mark.parametrize("balance", [0.0, 0.1, 10.0])
@pytest.mark.parametrize("C", [0.01, 1.0])
def test_cutting_planes_reach_the_problem_with_a_slack_per_row(clouds, rng, C, balance):
    z = np.where(clouds[:, 0] + rng.normal(size=40) > 2, 1, -1)
    w, b, objective = signed_by_qp(clouds, z, C, balance)
    machine = signed_svm(LinearFeatures(clouds), z, C=C, balance=balance, tol=1e-9)
    assert machine.converged
    value = 0.5 * machine.squared_norm + C * np.maximum(0, 1 - z * machine.scores).sum()
    assert value == pytest.approx(objective, rel=1e-6)
    np.testing.assert_allclose(machine.scores, clouds @ w + b, atol=1e-3)
    assert abs(machine.scores.mean()) <= balance + 1e-8


def test_the_slack_of_the_cuts_is_below_that_of_the_rows(clouds, rng):
    """Fewer constraints: the value of the cuts bounds the problem from below."""
    z = np.where(clouds[:, 0] > 2, 1, -1)
    objective = signed_by_qp(clouds, z, 1.0, 0.3)[2]
    for tol in (1e-1, 1e-3, 1e-5):
        machine = signed_svm(LinearFeatures(clouds), z, C=1.0, balance=0.3, tol=tol)
        value = 0.5 * machine.squared_norm + np.maximum(0, 1 - z * machine.scores).sum()
        assert objective - 1e-6 <= value <= objective + 40 * tol


def test_the_objective_never_rises_and_is_that_of_the_solution(rng):
    lengths = []
    for seed in range(5):
        X = np.random.default_rng(seed).normal(size=(50, 2))
        X -= X.mean(axis=0)
        labels = rng.choice([-1, 1], size=50)
        options = {"C": 1.0, "balance": 0.1, "steps": range(100), "tol": 1e-7}
        result = cutting_plane_mmc(LinearFeatures(X), labels, **options)
        curve = result.objective_curve
        lengths.append(len(curve))
        assert (np.diff(curve) <= 1e-5 * curve[:-1]).all()
        w = X.T @ result.solution[0]
        f = X @ w + result.solution[1]
        assert 0.5 * w @ w + np.maximum(0, 1 - np.abs(f)).sum() == pytest.approx(min(curve))
        assert abs(f.mean()) <= 0.1 + 1e-6
    assert max(lengths) > 2


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_rows_and_their_kernel_agree(clouds, kind):
    z = np.where(clouds[:, 0] > 2, 1, -1)
    options = {"C": 0.5, "balance": 0.3, "tol": 1e-8}
    rows = signed_svm(LinearFeatures(kind(clouds)), z, **options)
    kernel = signed_svm(KernelFeatures(clouds, lambda A, B: A @ B.T), z, **options)
    np.testing.assert_allclose(rows.scores, kernel.scores, atol=1e-4)


def test_the_small_qp_against_a_general_solver(rng):
    for _ in range(10):
        n, m = 12, 3
        B = rng.normal(size=(n, 5))
        H, q = B @ B.T, rng.normal(size=n)
        A = rng.normal(size=(m, n))
        b = A @ rng.uniform(0, 1, size=n)
        H += 1e-3 * np.eye(n)
        x, y = solve_small_qp(H, q, A, b)
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
        found = clarabel.DefaultSolver(
            sparse.csc_array(np.triu(H)),
            q,
            sparse.csc_array(np.vstack([A, -np.eye(n)])),
            np.r_[b, np.zeros(n)],
            [clarabel.ZeroConeT(m), clarabel.NonnegativeConeT(n)],
            settings,
        ).solve()
        assert 0.5 * x @ H @ x + q @ x == pytest.approx(found.obj_val, rel=1e-6, abs=1e-8)
        np.testing.assert_allclose(A @ x, b, atol=1e-8)
        slope = H @ x + q - A.T @ y
        assert slope.min() > -1e-7
        assert abs(slope @ x) < 1e-6
