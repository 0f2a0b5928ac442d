"""PrimalDualMISVM: the thirteen properties of the specification."""

import copy
import tracemalloc

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from bagwise import Bags
from bagwise.classification import PrimalDualMISVM
from bagwise.compute import place
from bagwise.exceptions import InputError
from bagwise.solvers.margin.primal_dual import (
    KernelSpace,
    LinearSpace,
    PrimalDualPart,
    Problem,
    primal_dual,
)
from cases import each
from checks import example
from primal_dual_oracle import DenseADMM
from test_primal_dual_solver import draw, solve


def running_oracle(n_iter=5, **options):
    X, offsets, codes = draw(3)
    W = 0.1 * np.random.default_rng(0).normal(size=(3, 4))
    dense = DenseADMM(X, offsets, codes, 3, W, **({"C": 1.0, "mu": 0.3, "rho": 1.1} | options))
    dense.run(n_iter)
    return dense


@each(
    ("block", "update"),
    [("W", "update_W"), ("b", "update_b"), ("E", "update_E"), ("Q", "update_Q"), ("R", "update_R")],
)
@each("mask", [True, False])
def test_1_each_block_update_minimises_the_augmented_lagrangian(block, update, mask, rng):
    dense = running_oracle(mask=mask)
    getattr(dense, update)()
    lowest = dense.lagrangian()
    found = getattr(dense, block)
    for size in (1e-3, 1e-1, 1.0):
        for _ in range(20):
            setattr(dense, block, found + size * rng.normal(size=found.shape))
            assert dense.lagrangian() >= lowest - 1e-9


@each("exact", [True, False])
def test_2_the_iteration_count_is_that_of_the_dense_algorithm(exact):
    X, offsets, codes = draw(0)
    W = 1e-3 * np.random.RandomState(0).standard_normal((3, X.shape[1]))
    dense = DenseADMM(X, offsets, codes, 3, W, C=1.0, mu=1e-2, rho=1.1, inexact=not exact)
    residuals, _ = dense.run(200)
    model = PrimalDualMISVM(
        C=1.0, mu=1e-2, rho=1.1, tol=1e-4, solver="exact" if exact else "inexact", random_state=0
    ).fit(Bags(X, offsets), codes)
    assert model.n_iter_ == 1 + np.flatnonzero(residuals < 1e-4)[0]


def test_3_one_multiplier_per_bag_and_class_differs_from_zero():
    dense = running_oracle(30)
    for dual in (dense.Theta, dense.Xi):
        for a, b in zip(dense.offsets[:-1], dense.offsets[1:], strict=True):
            assert (np.count_nonzero(np.abs(dual[a:b]) > 1e-12, axis=0) <= 1).all()


def test_4_the_step_is_that_of_an_exact_line_search():
    dense = running_oracle(inexact=True)
    before = dense.W.copy()
    dense.update_W()
    after, lowest = dense.W.copy(), dense.lagrangian()
    for m in range(3):
        for factor in (0.9, 0.99, 1.01, 1.1):
            dense.W = after.copy()
            dense.W[m] = before[m] + factor * (after[m] - before[m])
            assert dense.lagrangian() > lowest


class FromZero(LinearSpace):
    """A linear space that starts where a kernel space does."""

    def start(self, used, rng, n_classes):
        return 0 * super().start(used, rng, n_classes)


@each("exact", [True, False])
def test_5_the_linear_kernel_gives_the_primal_run(exact):
    X, offsets, codes = draw(1)
    options = {"n_iter": 60, "exact": exact}
    gram = Bags(X @ X.T, offsets)
    W, b = solve(FromZero(Bags(X, offsets)), codes, 3, **options).solution
    A, b_dual = solve(KernelSpace(gram), codes, 3, **options).solution
    np.testing.assert_allclose(A @ X, W, atol=1e-9)
    np.testing.assert_allclose(b_dual, b, atol=1e-9)


@each("n_copies", [0, 3])
def test_5_equation_28_equals_equation_10(n_copies, rng):
    X, offsets, codes = draw(2)
    weights = rng.uniform(0.5, 2, len(codes))
    codes = codes if n_copies else 0 * codes  # without copies, bags have no classes
    problem = Problem(offsets, codes, weights, 3, n_copies)
    primal, dual = LinearSpace(Bags(X, offsets)), KernelSpace(Bags(X @ X.T, offsets))
    options = {"n_columns": 3, "n_copies": n_copies}
    parts = place(primal.bags, PrimalDualPart, codes, weights, **options)
    equation_10, equation_28 = (
        space.solver(parts, problem, space.used_features(parts)) for space in (primal, dual)
    )
    R = rng.normal(size=(3, len(X)))
    np.testing.assert_allclose(equation_28(R, 0.7) @ X, equation_10(R @ X, 0.7), atol=1e-12)


@each("solver", ["exact", "inexact"])
@each("convert", [np.asarray, sparse.csr_array])
def test_7_a_constant_column_changes_nothing(solver, convert):
    bags, y = example(30)
    column = np.full((bags.n_instances, 1), 0.3)
    wide = bags.with_instances(convert(np.hstack([bags.instances, column])))
    model = PrimalDualMISVM(C=1, solver=solver)

    class Fixed(np.random.RandomState):
        """Gives both fits the same start."""

        def standard_normal(self, shape):
            start = np.random.RandomState(0).standard_normal((2, 4))
            return np.hstack([start, np.zeros((2, shape[1] - 4))])

    model.random_state = Fixed()
    plain, extended = copy.copy(model).fit(bags, y), copy.copy(model).fit(wide, y)
    np.testing.assert_allclose(extended.coef_[:, :4], plain.coef_, atol=1e-9)
    assert (extended.coef_[:, 4] == 0).all()
    np.testing.assert_allclose(extended.intercept_, plain.intercept_, atol=1e-9)


@pytest.mark.filterwarnings("ignore:pdMISVM did not improve")  # far from standardised
@each("solver", ["exact", "inexact"])
@each("scale", [1e-3, 1.0, 1e3])
def test_8_single_precision_is_finite_and_agrees(solver, scale):
    bags, y = example(60, n_classes=3)
    bags = bags.with_instances(scale * bags.instances)
    single = bags.with_instances(bags.instances.astype(np.float32))
    model = PrimalDualMISVM(C=1 / scale, solver=solver, random_state=0)
    found, expected = clone(model).fit(single, y), clone(model).fit(bags, y)
    assert found.coef_.dtype == np.float32
    assert np.isfinite(found.coef_).all()
    assert np.isfinite(found.objective_curve_).all()
    if scale == 1.0:  # elsewhere rounding may lead to another local solution
        np.testing.assert_array_equal(found.predict(single), expected.predict(bags))


@each("solver", ["exact", "inexact"])
def test_9_a_fit_holds_the_scores_twice_and_little_more(solver):
    rng = np.random.default_rng(0)
    n, d, K = 60_000, 40, 6
    bags = Bags(rng.normal(size=(n, d)), np.arange(0, n + 1, 20))
    y = np.arange(len(bags)) % K
    model = PrimalDualMISVM(solver=solver, max_iter=3, tol=0)
    with pytest.warns(ConvergenceWarning):
        clone(model).fit(bags, y)  # compiles
        tracemalloc.start()
        clone(model).fit(bags, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    scores = n * K * 8
    per_bag = len(bags) * K * 8
    assert peak < 2.5 * scores + 40 * per_bag + 8 * K * d * d * 4 + 8 * 8192 * d * 3


def weston_watkins_optimum(X, codes, K, C):
    """The convex problem of singleton bags, as a QP for a general solver."""
    clarabel = pytest.importorskip("clarabel")
    n, d = X.shape
    pairs = [(i, m) for i in range(n) for m in range(K) if m != codes[i]]
    size = K * (d + 1) + len(pairs)
    P = sparse.csc_array(sparse.diags_array(np.r_[np.ones(K * d), np.zeros(size - K * d)]))
    q = np.r_[np.zeros(K * (d + 1)), np.full(len(pairs), C)]
    rows = np.zeros((2 * len(pairs), size))
    right = np.zeros(2 * len(pairs))
    for p, (i, m) in enumerate(pairs):  # 1 + s_m - s_y - xi <= 0, -xi <= 0
        rows[p, m * d : (m + 1) * d] += X[i]
        rows[p, codes[i] * d : (codes[i] + 1) * d] -= X[i]
        rows[p, K * d + m] += 1
        rows[p, K * d + codes[i]] -= 1
        rows[p, K * (d + 1) + p] = -1
        right[p] = -1
        rows[len(pairs) + p, K * (d + 1) + p] = -1
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    cones = [clarabel.NonnegativeConeT(len(right))]
    solution = clarabel.DefaultSolver(P, q, sparse.csc_array(rows), right, cones, settings).solve()
    return solution.obj_val


def test_12_singletons_approach_the_weston_watkins_svm(rng):
    codes = np.arange(18) % 3
    X = rng.normal(size=(18, 3))
    X[:, 0] += codes
    best = weston_watkins_optimum(X, codes, 3, C=0.5)
    gaps = []
    for rho in (1.3, 1.05, 1.005):
        found = primal_dual(
            LinearSpace(Bags(X, np.arange(19))), codes, 3, C=0.5, rho=rho, mu=1e-2, tol=1e-9,
            max_iter=6000, exact=True, weights=np.ones(18),
            rng=np.random.RandomState(0),
        )  # fmt: skip
        gaps.append(found.objective_curve[-1] / best - 1)
    assert gaps[2] < 2e-3
    assert gaps[2] <= gaps[1] <= gaps[0]
    assert min(gaps) > -1e-6


@each("options", [{"kernel": "rbf"}, {"solver": "inexact"}])
def test_a_weight_of_two_equals_the_bag_twice_in_all_ways(options):
    bags, y = example(24)
    model = PrimalDualMISVM(C=1, random_state=0, **options)
    weights = 1 + np.arange(24) % 2
    twice = np.repeat(np.arange(24), weights)
    found = clone(model).fit(bags, y, sample_weight=weights)
    expected = clone(model).fit(bags[twice], y[twice])
    np.testing.assert_allclose(
        found.decision_function(bags), expected.decision_function(bags), atol=1e-6
    )


def test_learning_nothing_is_told():
    bags, y = example(24)
    far = bags.with_instances(1e6 * bags.instances + 1e8)
    with pytest.warns(ConvergenceWarning, match="standardise the instances"):
        PrimalDualMISVM(random_state=0).fit(far, y)


def test_sparse_and_dense_instances_give_the_same_model():
    bags, y = example(30)
    rows = bags.with_instances(sparse.csr_array(bags.instances))
    for solver in ("exact", "inexact"):
        model = PrimalDualMISVM(C=1, solver=solver, random_state=0)
        np.testing.assert_allclose(
            clone(model).fit(rows, y).coef_, clone(model).fit(bags, y).coef_, atol=1e-9
        )


def test_precomputed_equals_the_kernel_it_was_made_with():
    from sklearn.metrics.pairwise import rbf_kernel

    bags, y = example(20)
    gamma = 1 / (bags.n_features * np.var(bags.instances))
    gram = bags.with_instances(rbf_kernel(bags.instances, gamma=gamma))
    found = PrimalDualMISVM(C=1, kernel="precomputed").fit(gram, y)
    expected = PrimalDualMISVM(C=1, kernel="rbf").fit(bags, y)
    np.testing.assert_allclose(found.score_instances(gram), expected.score_instances(bags))
    with pytest.raises(InputError, match="one column per training instance"):
        PrimalDualMISVM(kernel="precomputed").fit(bags, y)


@pytest.mark.filterwarnings("ignore:pdMISVM did not improve")
@each("solver", ["exact", "inexact"])
def test_edges(solver):
    rng = np.random.default_rng(0)
    big = [rng.normal(size=(10_000, 2)), *(rng.normal(size=(3, 2)) + 4 for _ in range(5))]
    model = PrimalDualMISVM(solver=solver, random_state=0)
    assert set(model.fit(big, [0, 1, 1, 1, 1, 1]).predict(big)) <= {0, 1}  # one bag of a class
    same = [np.ones((2, 2))] * 6
    assert np.isfinite(model.fit(same, [0, 1] * 3).decision_function(same)).all()  # duplicates
