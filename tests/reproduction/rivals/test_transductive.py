from itertools import combinations

import numpy as np
import pytest
from scipy import sparse
from sklearn.svm import SVC

from bagwise.exceptions import LabelError
from bagwise.solvers.margin.feature_space import KernelFeatures, LinearFeatures
from qp_oracle import solve_margins
from reproduction.rivals import AnnealedSVM, GradientS3VM, TransductiveSVM, UniverSVM
from reproduction.rivals.solvers.transductive import (
    annealed_costs,
    switchable,
    transductive_svm,
)


@pytest.fixture
def cloud(rng):
    """Thirty overlapping rows, of which eight are labelled, as signs."""
    y = np.repeat([-1, 1], 15)
    X = rng.normal(size=(30, 3)) + 0.8 * y[:, None]
    signs = np.zeros(30, dtype=int)
    chosen = np.r_[0:4, 15:19]
    signs[chosen] = y[chosen]
    return X, signs


def solved(X, signs, **options):
    given = {"C1": 1.0, "C2": 0.5, "n_positive": 11, "max_iter": 1000, "tol": 1e-8} | options
    return transductive_svm(LinearFeatures(X), signs, **given)


def by_qp(X, labels, costs):
    return solve_margins(X, labels, np.ones(len(X)), np.arange(len(X)), costs)


def test_the_machine_is_the_svm_of_its_labels(cloud):
    X, signs = cloud
    result = solved(X, signs)
    coef, intercept, labels, _ = result.solution
    costs = np.where(signs == 0, 0.5, 1.0)
    w, b, objective = by_qp(X, labels, costs)
    assert result.converged
    assert result.objective_curve[-1] == pytest.approx(objective, rel=1e-6)
    np.testing.assert_allclose((X - X.mean(axis=0)).T @ coef, w, atol=1e-4)
    np.testing.assert_allclose(intercept - X.mean(axis=0) @ w, b, atol=1e-4)
    np.testing.assert_array_equal(labels[signs != 0], signs[signs != 0])
    assert np.sum(labels[signs == 0] == 1) == 11


def test_no_exchange_of_a_pair_is_left_that_lowers_the_objective(cloud):
    X, signs = cloud
    coef, intercept, labels, _ = solved(X, signs).solution
    scores = (X - X.mean(axis=0)) @ ((X - X.mean(axis=0)).T @ coef) + intercept
    slacks = np.maximum(0, 1 - labels * scores)
    for i, j in combinations(np.flatnonzero(signs == 0), 2):
        if labels[i] != labels[j]:
            after = max(0, 1 + labels[i] * scores[i]) + max(0, 1 + labels[j] * scores[j])
            assert after >= slacks[i] + slacks[j] - 1e-5


def test_against_all_labels_of_a_tiny_problem(rng):
    y = np.array([-1, 1, *[-1] * 3, *[1] * 3])
    X = rng.normal(size=(8, 2)) + 2 * y[:, None]
    signs = np.where(np.arange(8) < 2, y, 0)
    costs = np.where(signs == 0, 0.5, 1.0)
    objectives = []
    for positive in combinations(range(2, 8), 3):
        labels = np.where(np.isin(np.arange(8), positive), 1, -1)
        labels[:2] = y[:2]
        objectives.append(by_qp(X, labels, costs)[2])
    result = solved(X, signs, n_positive=3)
    assert result.objective_curve[-1] == pytest.approx(min(objectives), rel=1e-6)
    assert max(objectives) > 1.1 * min(objectives)


def test_the_cost_of_unlabelled_rows_starts_small_and_grows_to_c2(cloud):
    costs = list(annealed_costs(0.5))
    assert costs[0] == pytest.approx(0.5e-5)
    assert costs[-1] == 0.5
    assert (np.diff(costs) > 0).all()
    stages = solved(*cloud).solution[3]
    np.testing.assert_array_equal(np.unique(stages), costs)
    assert (np.diff(stages) >= 0).all()


def test_annealing_finds_labels_that_an_immediate_start_does_not(rng):
    # The labelled rows mislead: their SVM splits along the first axis, the gap is in the second.
    X = np.column_stack([rng.normal(size=40), np.repeat([-2.0, 2.0], 20)])
    X[[0, 20]] = [[-1.5, -2.0], [1.5, 2.0]]
    truth = np.repeat([-1, 1], 20)
    signs = np.zeros(40, dtype=int)
    signs[[0, 20]] = -1, 1
    labels = solved(X, signs, C1=10.0, C2=10.0, n_positive=19).solution[2]
    np.testing.assert_array_equal(labels, truth)


def test_the_objective_never_rises_within_a_stage(cloud):
    for seed in range(5):
        X, signs = cloud
        X = X + np.random.default_rng(seed).normal(size=X.shape)
        result = solved(X, signs, C2=2.0)
        curve, stages = result.objective_curve, result.solution[3]
        same = np.diff(stages) == 0
        assert (np.diff(curve)[same] <= 1e-6 * curve[1:][same]).all()


def test_exchanges_are_those_of_joachims(rng):
    labels = rng.choice([-1, 1], size=30)
    scores = rng.normal(size=30, scale=1.5)
    up, down = switchable(labels, scores)
    slacks = 1 - labels * scores
    assert len(up) > 0
    assert (slacks[up] > 0).all()
    assert (slacks[down] > 0).all()
    assert (slacks[up] + slacks[down] > 2).all()
    labels[up], labels[down] = -1, 1
    assert len(switchable(labels, scores)[0]) == 0
    slacks = 1 - labels * scores
    for i, j in combinations(range(30), 2):
        if labels[i] != labels[j]:
            both = slacks[i] > 0 and slacks[j] > 0
            assert not (both and slacks[i] + slacks[j] > 2)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("rival", [TransductiveSVM, UniverSVM])
def test_without_unlabelled_rows_it_is_the_ordinary_svm(rng, kernel, rival):
    y = np.arange(40) % 2
    X = rng.normal(size=(40, 3)) + y[:, None]
    ours = rival(kernel=kernel).fit(X, y)
    svm = SVC(kernel=kernel, tol=1e-8).fit(X, y)
    np.testing.assert_allclose(ours.decision_function(X), svm.decision_function(X), atol=1e-5)


def test_a_kernel_of_its_own_and_the_linear_one_agree(cloud):
    X, signs = cloud
    linear = solved(X, signs)
    given = {"C1": 1.0, "C2": 0.5, "n_positive": 11, "max_iter": 1000, "tol": 1e-8}
    centred = X - X.mean(axis=0)
    kernel = transductive_svm(KernelFeatures(centred, lambda A, B: A @ B.T), signs, **given)
    np.testing.assert_allclose(kernel.objective_curve[-1], linear.objective_curve[-1], rtol=1e-6)
    np.testing.assert_array_equal(kernel.solution[2], linear.solution[2])


@pytest.mark.parametrize(
    "model",
    [AnnealedSVM(), GradientS3VM(1.0, kernel="linear"), TransductiveSVM(), UniverSVM(C2=0.1)],
    ids=lambda model: type(model).__name__,
)
def test_a_rare_class_is_not_swallowed(rng, model):
    """Nine to one: sign(f) of the ordinary SVM is all-negative here at times; the share holds."""
    truth = np.r_[np.zeros(180), np.ones(20)].astype(int)
    X = rng.normal(size=(200, 5)) + 3 * truth[:, None]
    y = np.full(200, -1)
    y[[*range(9), 180]] = truth[[*range(9), 180]]
    predicted = model.fit(sparse.csr_array(X), y).predict(X)
    assert np.mean(predicted[truth == 1] == 1) > 0.9
    assert np.mean(predicted[truth == 0] == 0) > 0.9


def test_shares_that_are_none_are_refused(rng):
    for share, message in ((0.3, "3 classes: give the share"), ([0.5, 0.6, 0.2], "add up to 1")):
        with pytest.raises(LabelError, match=message):
            TransductiveSVM(positive_share=share).fit(rng.normal(size=(9, 2)), [0, 1, 2] * 3)
