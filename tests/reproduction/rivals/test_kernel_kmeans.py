from itertools import product

import numpy as np
import pytest
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.datasets import make_circles
from sklearn.metrics.pairwise import rbf_kernel

from bagwise.exceptions import InputError
from bagwise.solvers.margin.feature_space import KEPT, KernelFeatures, LinearFeatures
from reproduction.rivals import KernelKMeans, _row_clusterer
from reproduction.rivals.solvers.kernel_kmeans import first_labels, kernel_kmeans, squared_lengths
from reproduction.rivals.solvers.label_starts import aligned_labels


def sum_of_squares(K, labels):
    """The definition, by loops."""
    total = 0.0
    for k in set(labels):
        rows = np.flatnonzero(labels == k)
        for i in rows:
            total += K[i, i] - 2 * K[i, rows].mean() + K[np.ix_(rows, rows)].mean()
    return total


def test_the_linear_kernel_is_k_means(rng):
    X = rng.normal(size=(60, 3))
    labels = np.arange(60) % 4
    space = LinearFeatures(X)
    found = kernel_kmeans(space, squared_lengths(space), labels, 4, 300)
    centres = np.stack([X[labels == k].mean(axis=0) for k in range(4)])
    theirs = KMeans(4, init=centres, n_init=1, tol=0, algorithm="lloyd").fit(X)
    np.testing.assert_array_equal(found.solution[0], theirs.labels_)
    assert found.objective_curve[-1] == pytest.approx(theirs.inertia_)


def test_the_sum_of_squares_is_that_of_the_kernel_and_never_rises(rng):
    X = rng.normal(size=(50, 3))
    model = KernelKMeans(3, gamma=0.4, n_init=2, random_state=0).fit(X)
    K = rbf_kernel(X, gamma=0.4)
    assert model.inertia_ == pytest.approx(sum_of_squares(K, model.labels_))
    assert (np.diff(model.objective_curve_) <= 1e-9).all()


def test_against_all_labels_of_a_tiny_problem(rng):
    X = rng.normal(size=(9, 2))
    K = rbf_kernel(X, gamma=0.5)
    best = min(sum_of_squares(K, np.array([0, *rest])) for rest in product([0, 1], repeat=8))
    model = KernelKMeans(2, gamma=0.5, n_init=50, random_state=0).fit(X)
    assert model.inertia_ == pytest.approx(best)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_new_rows_go_to_the_nearest_mean(rng, kernel, kind):
    X = rng.normal(size=(40, 3)) + 5
    model = KernelKMeans(3, kernel=kernel, random_state=0).fit(kind(X))
    np.testing.assert_array_equal(model.predict(kind(X)), model.labels_)


def test_rings_need_a_kernel():
    X, rings = make_circles(120, factor=0.2, noise=0.03, random_state=0)
    radii = KernelKMeans(2, kernel=lambda a, b: (a @ a) * (b @ b), random_state=0)
    model = radii.fit(X)
    agree = np.mean(model.labels_ == rings)
    assert max(agree, 1 - agree) == 1.0
    plain = np.mean(KernelKMeans(2, kernel="linear", random_state=0).fit(X).labels_ == rings)
    assert max(plain, 1 - plain) < 0.8


@pytest.mark.parametrize("init", ["k-means++", "random", "alignment"])
def test_every_start_finds_clouds_apart(rng, init):
    kinds = np.arange(45) % 3
    X = rng.normal(size=(45, 2)) + 20 * np.eye(3)[kinds][:, :2]
    model = KernelKMeans(3, kernel="linear", init=init, random_state=0).fit(X)
    assert all(len(set(model.labels_[kinds == k])) == 1 for k in range(3))


def test_no_cluster_is_empty():
    X = np.array([[0.0]] * 5 + [[1.0]])
    model = KernelKMeans(4, random_state=0).fit(X)
    assert set(model.labels_) == {0, 1, 2, 3}


def test_the_diagonal_and_starts_in_blocks(rng):
    X = rng.normal(size=(600, 2))
    space = KernelFeatures(X, lambda A, B: (A @ B.T + 1) ** 2)
    np.testing.assert_allclose(squared_lengths(space), ((X**2).sum(axis=1) + 1) ** 2)
    labels = first_labels(space, squared_lengths(space), 3, "k-means++", np.random.RandomState(0))
    assert set(labels) == {0, 1, 2}


def test_more_rows_than_are_kept_give_the_same(rng, monkeypatch):
    X = rng.normal(size=(60, 3))
    whole = KernelKMeans(3, random_state=0).fit(X)
    monkeypatch.setattr("bagwise.solvers.margin.feature_space.KEPT", 10)
    assert KEPT > 60
    np.testing.assert_array_equal(KernelKMeans(3, random_state=0).fit(X).labels_, whole.labels_)


def test_the_aligned_labels_are_the_best_of_those_drawn(rng):
    X = rng.normal(size=(20, 2))
    X -= X.mean(axis=0)
    K = X @ X.T
    drawn = np.random.RandomState(3)
    labelings = [drawn.permutation(np.arange(20) % 2) for _ in range(20)]
    signed = [2.0 * labels - 1 for labels in labelings]
    alignments = [y @ K @ y for y in signed]
    found = aligned_labels(LinearFeatures(X), 20, 2, np.random.RandomState(3))
    np.testing.assert_array_equal(found, labelings[int(np.argmax(alignments))])


def test_a_small_budget_warns(rng):
    with pytest.warns(match="did not converge"):
        KernelKMeans(3, max_iter=1, n_init=1, random_state=0).fit(rng.normal(size=(60, 2)))


def test_too_many_rows_for_a_kernel_are_refused(rng, monkeypatch):
    X = rng.normal(size=(30, 2))
    monkeypatch.setattr(_row_clusterer, "MOST_ROWS", 29)
    with pytest.raises(InputError, match="X has 30 rows, and KernelKMeans"):
        KernelKMeans(2).fit(X)
    assert len(KernelKMeans(2, kernel="linear").fit(X).labels_) == 30


def test_ties_are_settled_despite_rounding():
    rng = np.random.default_rng(1)
    X = np.round(2 * rng.normal(size=(60, 4))) / 2
    values, where = np.unique(X, return_inverse=True)
    expected = KernelKMeans(3, random_state=0).fit(X).labels_
    for seed in range(3):
        signs = np.random.default_rng(seed).choice([-1, 1], len(values))
        other = (values * (1 + 1e-14 * signs))[where.reshape(X.shape)]
        np.testing.assert_array_equal(KernelKMeans(3, random_state=0).fit(other).labels_, expected)
