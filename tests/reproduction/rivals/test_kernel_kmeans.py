from itertools import product

import numpy as np
import pytest
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.datasets import make_circles
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.pairwise import rbf_kernel

from bagwise.solvers.margin.feature_space import LinearFeatures
from reproduction.rivals import KernelKMeans
from reproduction.rivals.solvers.kernel_kmeans import kernel_kmeans, squared_lengths
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
    agreement = [
        adjusted_rand_score(rings, KernelKMeans(2, kernel=kernel, random_state=0).fit(X).labels_)
        for kernel in (lambda a, b: (a @ a) * (b @ b), "linear")
    ]
    assert agreement[0] == 1
    assert agreement[1] < 0.4


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
