"""Local searches for labels, compared with the exact optimum on some twenty rows."""

import numpy as np
import pytest
from branch_and_bound import branch_and_bound, brute_force, squared_hinge_machine
from sklearn.datasets import make_moons
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from bagwise.cluster import WellSVMClustering
from bagwise.solvers.margin.feature_space import KernelFeatures, LinearFeatures
from reproduction.rivals import IterativeSVR
from reproduction.rivals.solvers.annealed_svm import annealed_svm
from reproduction.rivals.solvers.transductive import transductive_svm
from well_svm_oracle import sdp_relaxation, svm_value


def hinge_machine(K, costs):
    """The ordinary SVM with a free intercept, by LIBSVM."""

    def machine(signs):
        used = np.flatnonzero(signs)
        svm = SVC(kernel="precomputed", C=1.0, tol=1e-8)
        svm.fit(K[np.ix_(used, used)], signs[used], sample_weight=costs[used])
        coef = np.zeros(len(K))
        coef[used[svm.support_]] = svm.dual_coef_[0]
        scores = K @ coef + svm.intercept_[0]
        slacks = np.maximum(0, 1 - signs[used] * scores[used])
        return 0.5 * coef @ K @ coef + costs[used] @ slacks, scores

    return machine


def cloud(seed, n=18):
    rng = np.random.default_rng(seed)
    y = np.repeat([-1, 1], n // 2)
    X = rng.normal(size=(n, 3)) + 0.7 * y[:, None]
    X -= X.mean(axis=0)
    return X, np.where(np.arange(n) % 3 == 0, y, 0)


def test_branch_and_bound_is_brute_force_with_the_hinge():
    X, signs = cloud(0, n=12)
    machine = hinge_machine(X @ X.T, np.where(signs == 0, 0.5, 2.0))
    value, labels, n_solved = branch_and_bound(machine, signs, n_positive=4)
    expected, best = brute_force(machine, signs, n_positive=4)
    assert value == pytest.approx(expected, rel=1e-6)
    np.testing.assert_array_equal(labels, best)
    assert n_solved < 2**8


def test_label_switching_never_ends_below_the_optimum():
    gaps = []
    for seed in range(2):
        X, signs = cloud(seed)
        machine = hinge_machine(X @ X.T, np.where(signs == 0, 0.5, 2.0))
        exact = branch_and_bound(machine, signs, n_positive=6)[0]
        options = {"C1": 2.0, "C2": 0.5, "n_positive": 6, "max_iter": 1000, "tol": 1e-8}
        found = transductive_svm(LinearFeatures(X), signs, **options).objective_curve[-1]
        gaps.append(found / exact - 1)
    assert min(gaps) >= -1e-6
    assert min(gaps) < 1e-4  # at least once it finds the optimum


def test_annealing_never_ends_below_the_optimum():
    gaps = []
    for seed in range(4):
        X, signs = cloud(seed)
        with_constant = np.column_stack([X, np.ones(len(X))])
        costs = np.where(signs == 0, 0.5, 2.0)
        machine = squared_hinge_machine(with_constant, costs, 0.0)
        exact = branch_and_bound(machine, signs, n_positive=6)[0]
        result = annealed_svm(X, signs, C1=2.0, C2=0.5, share=0.5, tol=1e-9)
        entropy = 0.5 * result.solution[3][-1] * 12 * np.log(2)  # lowers the objective
        gaps.append((result.objective_curve[-1] + entropy) / exact - 1)
    assert min(gaps) >= -1e-6
    assert min(gaps) < 0.05


def test_branch_and_bound_finds_two_moons_with_the_hinge():
    X, y = make_moons(30, random_state=0)
    truth = 2 * y - 1
    signs = np.zeros(30, dtype=int)
    for label in (-1, 1):
        signs[np.flatnonzero(truth == label)[0]] = label
    K = rbf_kernel(X, gamma=2.0)
    machine = hinge_machine(K, np.full(30, 100.0))
    exact, labels, _ = branch_and_bound(machine, signs, n_positive=14)
    np.testing.assert_array_equal(labels, truth)
    space = KernelFeatures(X, lambda A, B: rbf_kernel(A, B, gamma=2.0))
    options = {"C1": 100.0, "C2": 100.0, "n_positive": 14, "max_iter": 1000, "tol": 1e-6}
    assert transductive_svm(space, signs, **options).objective_curve[-1] >= exact * (1 - 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_the_sdp_bounds_the_exact_clustering_and_searches_do_not_pass_it(seed):
    """Xu et al. (2005): the relaxation is a lower bound of the best balanced labels."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(6, 2)) + np.repeat([-1.0, 1.0], 3)[:, None]
    K, costs = X @ X.T + 1e-6 * np.eye(6), np.full(6, 2.0)

    def machine(signs):
        used = np.flatnonzero(signs)
        part = K[np.ix_(used, used)]
        return svm_value(part, signs[used], costs[used]), K[:, used] @ signs[used]

    first = np.array([1, 0, 0, 0, 0, 0])  # names the clusters
    exact = min(branch_and_bound(machine, first, n_positive=k)[0] for k in (1, 2, 3))
    assert sdp_relaxation(K, 2.0, 2) <= exact * (1 + 1e-3)
    for model in (WellSVMClustering(balance=0.34, C=2.0), IterativeSVR(balance=0.34)):
        labels = 2 * model.fit(X).labels_ - 1
        assert abs(labels.sum()) <= 2
        assert machine(labels)[0] >= exact * (1 - 1e-6)
