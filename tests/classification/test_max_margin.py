"""The convex max-margin solver against a general QP, LIBSVM and the optimality conditions."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel
from sklearn.svm import SVC

from bagwise.exceptions import InputError
from bagwise.solvers.margin.feature_space import KernelFeatures, LinearFeatures
from bagwise.solvers.margin.max_margin import MarginProblem, Start, max_margin
from cases import covering, each


def drawn(rng, n_instances, n_features, n_groups=None):
    """Instances, and a problem of averages of them with odd margins, costs and groups."""
    X = rng.normal(size=(n_instances, n_features))
    X[: n_instances // 2, 0] += 1.5
    n_points = n_instances - 4
    few = rng.random((n_points, n_instances)) < 0.03
    combine = sparse.csr_array(rng.random((n_points, n_instances)) * few)
    combine = sparse.csr_array(combine + sparse.eye_array(n_points, n_instances))
    groups = np.sort(rng.integers(0, n_groups or n_points, n_points))
    _, groups = np.unique(groups, return_inverse=True)
    signs = np.where(np.arange(groups[-1] + 1) % 2, 1.0, -1.0)[groups]
    return X, MarginProblem(
        combine=sparse.csr_array(combine / combine.sum(axis=1)[:, None]),
        signs=signs,
        margins=rng.uniform(-1, 1.5, n_points),
        groups=groups,
        costs=rng.uniform(0.5, 2, groups[-1] + 1),
    )


def scaled(problem, C):
    return MarginProblem(
        problem.combine, problem.signs, problem.margins, problem.groups, C * problem.costs
    )


def ordinary(X, y, C):
    n = len(y)
    signs = np.where(y == 1, 1.0, -1.0)
    eye = sparse.eye_array(n, format="csr")
    return MarginProblem(eye, signs, np.ones(n), np.arange(n), np.full(n, float(C)))


def objective(problem, machine):
    scores = problem.combine @ machine.scores
    slack = np.zeros(len(problem.costs))
    np.maximum.at(slack, problem.groups, problem.margins - problem.signs * scores)
    return 0.5 * machine.squared_norm + problem.costs @ slack


def by_interior_points(gram, problem):
    """The dual, by clarabel: min 1/2 a'Qa - p'a, y'a = 0, a >= 0, sums in groups at most C."""
    clarabel = pytest.importorskip("clarabel", reason="the oracle is a QP solved by clarabel")
    n, n_groups = len(problem.signs), len(problem.costs)
    values, vectors = np.linalg.eigh(gram)  # Q = F F', well posed where the kernel is singular
    F = problem.signs[:, None] * vectors * np.sqrt(np.maximum(values, 0))
    member = np.eye(n_groups)[:, problem.groups]
    # Variables (a, v) with v = F' a, so that the quadratic part is the identity.
    P = sparse.csc_array(sparse.diags_array(np.r_[np.zeros(n), np.ones(n)]))
    rows = np.vstack(
        [
            np.hstack([F.T, -np.eye(n)]),
            np.r_[problem.signs, np.zeros(n)],
            np.hstack([-np.eye(n), np.zeros((n, n))]),
            np.hstack([member, np.zeros((n_groups, n))]),
        ]
    )
    right = np.r_[np.zeros(n + 1 + n), problem.costs]
    cones = [clarabel.ZeroConeT(n + 1), clarabel.NonnegativeConeT(n + n_groups)]
    options = clarabel.DefaultSettings()
    options.verbose = False
    options.tol_gap_abs = options.tol_gap_rel = options.tol_feas = 1e-11
    q = np.r_[-problem.margins, np.zeros(n)]
    found = clarabel.DefaultSolver(P, q, sparse.csc_array(rows), right, cones, options).solve()
    return np.array(found.x)[:n], -found.obj_val


@covering(
    C=[1e-3, 0.1, 10.0, 1e3],
    n_groups=[None, 12],
    shape=[(40, 3), (30, 60)],
    kind=["dense", "sparse", "rbf"],
)
def test_solution_equals_a_general_qp(rng, C, n_groups, shape, kind):
    X, problem = drawn(rng, *shape, n_groups)
    problem = scaled(problem, C)
    rows, kernel = X, linear_kernel
    if kind == "rbf":
        kernel = rbf_kernel
        space = KernelFeatures(X, rbf_kernel)
    else:
        rows = X if kind == "dense" else sparse.csr_array(X)
        space = LinearFeatures(rows)
    machine = max_margin(space, problem, tol=1e-10)
    assert machine.converged
    gram = problem.combine @ kernel(X) @ problem.combine.T
    a, value = by_interior_points(gram, problem)
    assert objective(problem, machine) == pytest.approx(value, rel=1e-6)
    expected = kernel(X) @ (problem.combine.T @ (problem.signs * a))  # w, as scores up to b
    found = machine.scores - machine.scores.mean()
    np.testing.assert_allclose(found, expected - expected.mean(), atol=1e-5)


@covering(n_groups=[None, 40], C=[0.01, 1.0, 100.0])
def test_primal_and_dual_objective_meet(rng, n_groups, C):
    X, problem = drawn(rng, 300, 20, n_groups)
    problem = scaled(problem, C)
    machine = max_margin(LinearFeatures(X), problem, tol=1e-8)
    a = machine.multipliers
    assert (a >= 0).all()
    assert (np.bincount(problem.groups, a) <= problem.costs * (1 + 1e-9)).all()
    assert abs(problem.signs @ a) <= 1e-6 * a.sum()
    dual = problem.margins @ a - 0.5 * machine.squared_norm
    assert objective(problem, machine) == pytest.approx(dual, rel=1e-6)
    assert machine.objective_curve[-1] == pytest.approx(dual, rel=1e-6)


@each("kernel", ["linear", "rbf"])
@each("C", [0.01, 1.0, 30.0])
def test_an_ordinary_problem_equals_libsvm(rng, kernel, C):
    y = np.arange(60) % 2
    X = rng.normal(size=(60, 4)) + 0.7 * y[:, None]
    cousin = SVC(C=C, kernel=kernel, gamma=0.3, tol=1e-9).fit(X, y)
    space = (
        LinearFeatures(X)
        if kernel == "linear"
        else KernelFeatures(X, lambda A, B: rbf_kernel(A, B, gamma=0.3))
    )
    found = max_margin(space, ordinary(X, y, C), tol=1e-9).scores
    # LIBSVM keeps the kernel in single precision: our margins are exact, its nearly so.
    np.testing.assert_allclose(found, cousin.decision_function(X), atol=3e-4)


def test_rows_and_their_kernel_give_the_same_machine(rng):
    X, problem = drawn(rng, 50, 5, 15)
    plain = max_margin(LinearFeatures(X), problem, tol=1e-10)
    kernel = max_margin(KernelFeatures(X, linear_kernel), problem, tol=1e-10)
    np.testing.assert_allclose(plain.scores, kernel.scores, atol=1e-7)


def test_the_intercept_is_the_middle_where_there_is_a_choice():
    X = np.array([[-3.0], [-1.0], [1.0], [5.0]])
    # C is so small that all are at their bound, w = C sum y x = 0.08: f = 0.08 x + b errs least
    # for any b between that which takes x = 1 to its margin and that which takes x = -1 there.
    machine = max_margin(LinearFeatures(X), ordinary(X, np.array([0, 0, 1, 1]), 0.01), tol=1e-10)
    centred = X[:, 0] - X.mean()
    w = 0.01 * (centred[2:].sum() - centred[:2].sum())
    low, high = -1 - w * centred[0], 1 - w * centred[3]
    np.testing.assert_allclose(machine.scores, w * centred + (low + high) / 2, atol=1e-9)


def test_a_warm_start_ends_where_a_cold_one_does(rng):
    X, problem = drawn(rng, 80, 6, 30)
    space = LinearFeatures(X)
    cold = max_margin(space, problem, tol=1e-10)
    before = max_margin(space, scaled(problem, 3.0), tol=1e-10)
    start = Start(
        np.minimum(before.multipliers, 0.1),
        problem.signs * before.multipliers,
        before.intercept,
        before.sigma,
    )
    warm = max_margin(space, problem, tol=1e-10, start=start)
    np.testing.assert_allclose(warm.scores, cold.scores, atol=1e-7)


@covering(n_groups=[None, 20], kind=[LinearFeatures, KernelFeatures])
def test_gathering_points_ends_where_all_at_once_does(rng, monkeypatch, n_groups, kind):
    X, problem = drawn(rng, 200, 6, n_groups)
    space = kind(X, rbf_kernel) if kind is KernelFeatures else kind(X)
    expected = max_margin(space, problem, tol=1e-10)
    monkeypatch.setattr(space, "at_once", 20)
    np.testing.assert_allclose(
        max_margin(space, problem, tol=1e-10).scores, expected.scores, atol=1e-7
    )


@each("shift", [0.0, 1e4])
@each("scale", [1e-3, 1.0, 1e4])
def test_units_and_origin_of_the_data_do_not_matter(rng, scale, shift):
    y = np.arange(50) % 2
    X = rng.normal(size=(50, 5)) + 0.5 * y[:, None]
    expected = max_margin(LinearFeatures(X), ordinary(X, y, 1.0), tol=1e-10).scores
    moved = LinearFeatures(scale * (X + shift))
    found = max_margin(moved, ordinary(X, y, scale**-2), tol=1e-10).scores
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_points_that_cannot_be_told_apart_score_alike():
    X = np.ones((6, 3))
    machine = max_margin(
        LinearFeatures(X), ordinary(X, np.array([1, 1, 1, 1, 0, 0]), 1.0), tol=1e-8
    )
    np.testing.assert_allclose(machine.scores, 1.0)  # four of six are positive
    assert machine.squared_norm == 0


def test_a_kernel_that_is_none_is_refused(rng):
    X, problem = drawn(rng, 20, 3)
    with pytest.raises(InputError, match="not positive semi-definite"):
        max_margin(KernelFeatures(X, lambda A, B: -linear_kernel(A, B)), problem, tol=1e-8)
