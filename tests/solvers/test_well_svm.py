"""Cutting planes, master problem and label generators of WellSVM against brute force."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import linprog, minimize
from sklearn.svm import OneClassSVM

from bagwise.loops import dual_descent, simplex
from bagwise.solvers.wellsvm import well_svm as module
from bagwise.solvers.wellsvm.well_svm import (
    BoundedLabels,
    KeyInstances,
    PartialLabels,
    aligned_start,
    canonical_order,
    split,
    well_svm,
)
from cases import each
from reproduction.rivals.solvers.well_svm_alternation import refine, s3vm_objective
from well_svm_oracle import all_labels, relaxation, sdp_relaxation, svm_value


def cluster(rng, n=8, cost=2.0, beta=2, **options):
    X = rng.normal(size=(n, 3))
    rows = dual_descent.with_constant(dual_descent.rows_of(X), 0.5)
    labels = BoundedLabels(n, (n - beta) // 2)
    order = canonical_order(rows, np.zeros(n))
    first = aligned_start(rows, labels, order, 5, 0)
    options = {"order": order, "tol": 1e-6, "max_cuts": 60, "n_random": 10} | options
    return X @ X.T + 0.25, well_svm(rows, labels, np.full(n, cost), first, **options)


numbers = st.lists(st.integers(-3, 3), min_size=1, max_size=9)


@settings(deadline=None)
@given(numbers, st.data())
def test_sorting_is_the_best_label_vector(r, data):
    r = np.array(r, dtype=float)
    n_negative = data.draw(st.integers(0, len(r)))
    signs = split(r, -np.arange(len(r), dtype=float), n_negative)
    rivals = all_labels(len(r), 0)
    rivals = rivals[(rivals < 0).sum(axis=1) == n_negative]
    assert (signs < 0).sum() == n_negative
    assert r @ signs == (rivals @ r).max()


def test_ties_go_by_the_second_key():
    r, tie = np.zeros(4), np.array([3.0, -1.0, 2.0, -5.0])
    assert split(r, tie, 2).tolist() == [1, -1, 1, -1]


@settings(deadline=None)
@given(numbers, st.integers(0, 4))
def test_bounded_labels_are_the_best_of_their_set(r, least):
    r = np.array(r, dtype=float)
    least = min(least, len(r) // 2)
    _, signs = BoundedLabels(len(r), least).choose(r, np.ones(len(r)), r)
    rivals = all_labels(len(r), least)
    assert (rivals == signs).all(axis=1).any()
    assert r @ signs == (rivals @ r).max()


def test_partial_labels_keep_what_is_known(rng):
    known = np.array([1, 0, -1, 0, 0, 0], np.int8)
    scores, alpha = rng.normal(size=6), rng.uniform(size=6)
    _, signs = PartialLabels(known, 1).choose(scores, alpha, scores)
    assert signs[[0, 2]].tolist() == [1, -1]
    assert np.flatnonzero(signs[[1, 3, 4, 5]] < 0).tolist() == [
        int(np.argmin((alpha * scores)[[1, 3, 4, 5]]))
    ]


def test_a_key_instance_is_the_best_of_its_bag(rng):
    offsets, positive = np.array([0, 3, 5, 9]), np.array([True, False, True])
    scores = rng.normal(size=9)
    pick, signs = KeyInstances(offsets, positive).choose(scores, np.ones(4), scores)
    assert pick.tolist() == [scores[:3].argmax(), 5 + scores[5:].argmax(), 3, 4]
    assert signs.tolist() == [1, 1, -1, -1]


def test_a_key_instance_raises_the_square_most_of_all_single_steps(rng):
    """r = H s + tau / 2: the argmax of v . x maximises the linear score over all choices."""
    offsets, positive = np.array([0, 3, 6, 8]), np.array([True, True, False])
    X, alpha = rng.normal(size=(8, 2)), rng.uniform(size=4)
    old = np.array([0, 3])
    v = alpha[:2] @ X[old] - alpha[2:] @ X[6:]
    pick, _ = KeyInstances(offsets, positive).choose(X @ v, alpha, X @ v)
    H = np.outer(alpha[:2], alpha[:2]).repeat(3, 0).repeat(3, 1) * (X[:6] @ X[:6].T)
    tau = -2 * alpha[:2].repeat(3) * (X[:6] @ (alpha[2:] @ X[6:]))
    s = np.zeros(6)
    s[old] = 1
    r = H @ s + tau / 2
    assert pick[:2].tolist() == [r[:3].argmax(), 3 + r[3:].argmax()]


def test_between_the_relaxation_which_it_often_reaches_and_the_integer_optimum():
    labels, costs, reached = all_labels(8, 3), np.full(8, 2.0), 0
    for seed in range(6):
        K, result = cluster(np.random.default_rng(seed))
        curve, (_, _, _, signs, mu, _) = result.objective_curve, result.solution
        lowest = relaxation(K, labels, costs)
        reached += curve[-1] <= lowest * (1 + 1e-2)
        assert all((labels == y).all(axis=1).any() for y in signs.T)  # each lies in B
        assert curve[-1] >= lowest - 1e-4 * lowest
        # The master is exact on its own working set in the end, and nearly so on the way: the
        # curve begins at an ordinary SVM.
        assert curve[-1] == pytest.approx(relaxation(K, signs.T, costs), rel=1e-4)
        assert 0 <= curve[0] / svm_value(K, signs[:, 0], costs) - 1 < 0.02
        assert (np.diff(curve) <= 0).all()
        assert mu.min() >= 0
        assert mu.sum() == pytest.approx(1)
        if seed == 0:  # of the two oracles, no solver takes part
            assert lowest <= min(svm_value(K, y, costs) for y in labels) * (1 + 1e-6)
    assert reached >= 4


def test_planes_kept_from_smaller_working_sets_are_bounds(rng, monkeypatch):
    """max_a sum_t mu_t G(a, y_t), by a general solver, is above every plane at any weights."""
    masters = []

    class Kept(module._Master):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            masters.append(self)

    monkeypatch.setattr(module, "_Master", Kept)
    K, _ = cluster(rng, max_cuts=4, tol=1e-3)
    (master,) = masters
    T = len(master.mu)
    assert T > 2
    assert len(master.planes) > T  # those of the last working set, and some from before
    for mu in [*np.eye(T), *rng.dirichlet(np.ones(T), size=5)]:
        Q = sum(m * K * np.outer(y, y) for m, y in zip(mu, master.signs.T, strict=True))
        found = minimize(
            lambda a, Q=Q: (a @ Q @ a / 2 - a.sum(), Q @ a - 1), np.ones(8), jac=True,
            bounds=[(0, 2.0)] * 8, options={"ftol": 1e-14, "gtol": 1e-10},
        )  # fmt: skip
        assert max(plane @ mu for plane in master.planes) <= -found.fun * (1 + 1e-6)


def test_labels_that_stay_end_the_search():
    """From the round on in which the labels have stayed twice, a further cut is not looked for."""
    X = np.random.default_rng(0).normal(size=(60, 3))
    known = np.where(np.arange(60) < 6, np.where(X[:, 0] > 0, 1, -1), 0).astype(np.int8)
    rows = dual_descent.with_constant(dual_descent.rows_of(X), 0.5)
    labels = PartialLabels(known, 27)
    order = canonical_order(rows, known)
    first = labels.choose(X[:, 0], np.ones(60), X[:, 0])

    def learn(max_cuts, stable):
        result = well_svm(
            rows, labels, np.full(60, 1.0), first, order=order, tol=1e-3, max_cuts=max_cuts,
            stable=stable,
        )  # fmt: skip
        scores = dual_descent.score(rows, result.solution.f)
        return result, labels.choose(scores, np.ones(60), scores)[1]

    ended, signs = learn(50, 0.1)
    assert ended.converged
    whole, _ = learn(50, 0.0)
    assert 3 <= ended.n_iter < whole.n_iter
    for n_cuts in (1, 2):  # nearly the labels of the two rounds before, which are less exact
        assert np.mean(learn(ended.n_iter - n_cuts, 0.0)[1] != signs) < 0.25


def semi_supervised(seed, kind, n=24, cost=0.3):
    """A mixture of rows with six labels, and what it was made of."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    known = np.where(np.arange(n) < 6, np.where(np.arange(n) % 2, 1, -1), 0).astype(np.int8)
    rows = {
        "dense": dual_descent.with_constant(dual_descent.rows_of(X), 0.5),
        "sparse": dual_descent.with_constant(dual_descent.rows_of(sparse.csr_array(X)), 0.5),
        "gram": dual_descent.with_constant(dual_descent.gram_rows(X @ X.T), 0.5),
    }[kind]
    labels, costs = PartialLabels(known, 8), np.where(known != 0, 1.0, cost)
    order = canonical_order(rows, known)
    first = labels.choose(X[:, 0], np.ones(n), X[:, 0])
    result = well_svm(rows, labels, costs, first, order=order, tol=1e-3, max_cuts=20)
    return X @ X.T + 0.25, rows, labels, costs, order, result.solution


def test_refining_never_raises_the_objective_and_keeps_the_balance():
    lower = 0
    for seed, kind in enumerate(["dense", "sparse", "gram"] * 3):
        K, rows, labels, costs, order, mixture = semi_supervised(seed, kind)
        before, _ = s3vm_objective(rows, labels, costs, mixture)
        refined = refine(rows, labels, costs, mixture, order=order, tol=1e-6)
        after, signs = s3vm_objective(rows, labels, costs, refined)
        assert after <= before
        # The objective written out: the norm, and the least loss over label vectors of B.
        scores = K @ refined.coef
        loss = costs @ np.maximum(0, 1 - signs * scores)
        assert after == pytest.approx(refined.coef @ scores / 2 + loss, rel=1e-6)
        if refined is mixture:
            continue
        lower += 1
        assert np.sum(refined.signs[labels.unknown] < 0) == labels.n_negative
        assert (refined.signs[labels.signs != 0, 0] == labels.signs[labels.signs != 0]).all()
        assert after <= svm_value(K, refined.signs[:, 0], costs) * (1 + 1e-4)
    assert lower >= 4  # a mixture is rarely a good machine of one label vector


@each("seed", range(4))
def test_sorted_labels_have_the_least_loss(seed):
    _, rows, labels, costs, _, mixture = semi_supervised(seed, "dense", n=12)
    objective, _ = s3vm_objective(rows, PartialLabels(labels.signs, 3), costs, mixture)
    scores = dual_descent.score(rows, mixture.f)
    every = all_labels(12, 0)
    known = labels.signs != 0
    inside = (every[:, known] == labels.signs[known]).all(axis=1)
    inside &= (every[:, ~known] < 0).sum(axis=1) == 3
    least = np.maximum(0, 1 - every[inside] * scores) @ costs
    norm = dual_descent.square(rows, mixture.coef, mixture.f)
    assert objective == pytest.approx(norm / 2 + least.min(), rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_the_relaxation_is_at_least_as_tight_as_the_sdp(seed):
    rng = np.random.default_rng(seed)
    K, result = cluster(rng, n=6)
    sdp = sdp_relaxation(K + 1e-6 * np.eye(6), 2.0, 2)
    assert relaxation(K, all_labels(6, 2), np.full(6, 2.0)) >= sdp - 1e-3 * abs(sdp)
    assert result.objective_curve[-1] >= sdp - 1e-3 * abs(sdp)


def test_the_gap_is_that_of_the_labels_met(rng):
    _, result = cluster(rng, max_cuts=2, tol=1e-8)
    f, _, _, _, _, gap = result.solution
    assert not result.converged
    assert gap > 0
    assert f.shape == (4,)


def test_nu_form_is_the_normalised_svm(rng):
    """The nu-SVM with squared hinge that the paper uses for kernels: a / 1'a, by OneClassSVM."""
    X, y, C = rng.normal(size=(30, 4)), rng.choice([-1, 1], size=30), 3.0
    K = np.exp(-((X[:, None] - X) ** 2).sum(axis=2)) + np.eye(30) / C
    rows = dual_descent.gram_rows(K)
    alpha, f = np.zeros(30), np.zeros(31)
    dual_descent.descend(
        rows, np.arange(30)[:, None], y[:, None].astype(np.int8), np.ones(1), np.full(30, 1e6),
        alpha, f, np.empty((31, 0)), order=np.arange(30), tol=1e-12, max_passes=100_000,
    )  # fmt: skip
    nu = OneClassSVM(kernel="precomputed", nu=1 / 30, tol=1e-10).fit(K * np.outer(y, y))
    expected = np.zeros(30)
    expected[nu.support_] = nu.dual_coef_[0]
    np.testing.assert_allclose(alpha / alpha.sum(), expected / expected.sum(), atol=1e-6)


@each("seed", range(20))
def test_the_game_of_the_level_method(seed):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(rng.integers(1, 8), rng.integers(1, 6)))
    value, mu = simplex.least(A)
    n = A.shape[1]
    above = np.column_stack([A, -np.ones(len(A))])
    game = linprog(
        np.r_[np.zeros(n), 1.0], A_ub=above, b_ub=np.zeros(len(A)),
        A_eq=np.r_[np.ones(n), 0.0][None], b_eq=[1.0], bounds=[(0, None)] * n + [(None, None)],
    )  # fmt: skip
    assert value == pytest.approx(game.fun, abs=1e-9)
    assert (A @ mu).max() == pytest.approx(value, abs=1e-9)
    # and the projection on a level above it
    start, level = rng.dirichlet(np.ones(n)), value + 0.3
    near = simplex.nearest_below(A, start, level)
    plain = minimize(
        lambda x: ((x - start) ** 2).sum(), mu, bounds=[(0, 1)] * n,
        constraints=[
            {"type": "eq", "fun": lambda x: x.sum() - 1},
            {"type": "ineq", "fun": lambda x: level - A @ x},
        ],
        options={"ftol": 1e-14},
    )  # fmt: skip
    np.testing.assert_allclose(near, plain.x, atol=1e-4)
