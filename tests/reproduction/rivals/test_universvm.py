import clarabel
import numpy as np
import pytest
from scipy import sparse

from bagwise.solvers.margin.feature_space import LinearFeatures
from reproduction.rivals import UniverSVM
from reproduction.rivals.solvers.universvm import ramp, ramp_svm


@pytest.fixture
def cloud(rng):
    y = np.repeat([-1, 1], 15)
    X = rng.normal(size=(30, 3)) + 0.8 * y[:, None]
    X -= X.mean(axis=0)
    signs = np.zeros(30, dtype=int)
    chosen = np.r_[0:3, 15:20]
    signs[chosen] = y[chosen]
    return X, signs


def solved(X, signs, **options):
    given = {"C1": 1.0, "C2": 0.3, "s": -0.3, "mean_score": 0.25, "max_iter": 100, "tol": 1e-8}
    return ramp_svm(LinearFeatures(X), signs, **given | options)


def tangent_problem_by_qp(X, signs, flat_up, flat_down, C1, C2, mean_score):
    """Collobert's convex problem as written: hinges, a linear term beta y f, an equality."""
    known, unknown = np.flatnonzero(signs), np.flatnonzero(signs == 0)
    rows = np.concatenate([known, unknown, unknown])
    y = np.concatenate([signs[known], np.ones(len(unknown)), -np.ones(len(unknown))])
    cost = np.repeat([C1, C2], [len(known), 2 * len(unknown)])
    beta = C2 * np.concatenate([np.zeros(len(known)), flat_up, flat_down])
    d, n = X.shape[1], len(rows)
    P = sparse.csc_array(sparse.diags_array(np.r_[np.ones(d), np.zeros(1 + n)]))
    q = np.r_[(beta * y) @ X[rows], beta @ y, cost]
    balance = np.r_[X[unknown].mean(axis=0), 1.0, np.zeros(n)]
    hinge = np.hstack([-y[:, None] * X[rows], -y[:, None], -np.eye(n)])
    positive = np.hstack([np.zeros((n, d + 1)), -np.eye(n)])
    A = sparse.csc_array(np.vstack([balance, hinge, positive]))
    b = np.r_[mean_score, -np.ones(n), np.zeros(n)]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(2 * n)]
    x = np.array(clarabel.DefaultSolver(P, q, A, b, cones, settings).solve().x)
    return x[:d], x[d]


def test_the_end_is_a_fixed_point_of_the_published_problem(cloud):
    X, signs = cloud
    result = solved(X, signs)
    w, b = X.T @ result.solution[0], float(result.solution[1])
    f = (X @ w + b)[signs == 0]
    again = tangent_problem_by_qp(X, signs, f < -0.3, -f < -0.3, 1.0, 0.3, 0.25)
    np.testing.assert_allclose(w, again[0], atol=1e-4)
    np.testing.assert_allclose(b, again[1], atol=1e-4)
    assert result.converged


def test_the_unlabelled_rows_score_as_asked_on_average(cloud):
    X, signs = cloud
    for mean_score in (-0.5, 0.0, 0.25):
        coef, intercept = solved(X, signs, mean_score=mean_score).solution
        f = X @ (X.T @ coef) + intercept
        assert f[signs == 0].mean() == pytest.approx(mean_score, abs=1e-6)


def test_the_objective_never_rises_and_is_that_of_the_solution(cloud):
    X, signs = cloud
    lengths = []
    for seed in range(6):
        Z = X + np.random.default_rng(seed).normal(size=X.shape)
        Z -= Z.mean(axis=0)
        result = solved(Z, signs, C2=1.0)
        curve = result.objective_curve
        lengths.append(len(curve))
        assert (np.diff(curve) <= 1e-6 * curve[:-1]).all()
        w, b = Z.T @ result.solution[0], float(result.solution[1])
        f = Z @ w + b
        loss = np.maximum(0, 1 - signs * f)[signs != 0].sum()
        flat = (ramp(f, -0.3) + ramp(-f, -0.3))[signs == 0].sum()
        assert 0.5 * w @ w + loss + flat == pytest.approx(curve[-1], rel=1e-8)
    assert max(lengths) > 1


def test_the_ramp_is_a_hinge_minus_a_hinge(rng):
    z = rng.normal(size=50, scale=2)
    hinges = [np.maximum(0, a - z) for a in (1.0, -0.4)]
    np.testing.assert_allclose(ramp(z, -0.4), hinges[0] - hinges[1], atol=1e-15)


def test_a_kernel_and_its_features_agree(cloud):
    X, signs = cloud
    y = np.where(signs == 0, -1, signs > 0)
    linear = UniverSVM(C2=0.3).fit(X, y)
    kernel = UniverSVM(C2=0.3, kernel=lambda a, b: a @ b).fit(X, y)
    found, expected = (model.decision_function(X) for model in (kernel, linear))
    np.testing.assert_allclose(found, expected, atol=1e-4)
