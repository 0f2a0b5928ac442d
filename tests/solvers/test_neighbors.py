"""Nearest neighbours, also of equal rows."""

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.neighbors import NearestNeighbors

from bagwise.solvers.spectral import LEAF, nearest_neighbors
from cases import covering


def copied(rng, counts):
    """Distinct rows, each as often as told, in any order."""
    X = np.repeat(rng.normal(size=(len(counts), 3)).round(2), counts, axis=0)
    return X[rng.permutation(len(X))]


@covering(
    kind=[np.asarray, sparse.csr_array],
    n_neighbors=[1, 4, 35],
    counts=[[50], [40, 1], [1, 2, 60, 3, 33, 1], [1] * 50, [2] * 20],
)
def test_distances_are_those_of_all_pairs(rng, counts, n_neighbors, kind):
    X = copied(rng, counts)
    distances, neighbors = nearest_neighbors(kind(X), n_neighbors)
    between = cdist(X, X)
    np.fill_diagonal(between, np.inf)
    expected = np.sort(between, axis=1)[:, :n_neighbors]
    np.testing.assert_allclose(distances, expected, atol=1e-7)
    np.testing.assert_allclose(np.take_along_axis(between, neighbors, 1), expected, atol=1e-7)
    assert all(len(set(row)) == n_neighbors for row in neighbors.tolist())


def test_without_many_copies_it_is_the_search_of_scikit_learn(rng):
    X = copied(rng, [LEAF, 1, 2, 5])
    expected = NearestNeighbors(n_neighbors=3).fit(X).kneighbors()
    for ours, theirs in zip(nearest_neighbors(X, 3), expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_copies_share_their_neighbours_evenly(rng):
    X = copied(rng, [100, 1])
    degrees = np.bincount(nearest_neighbors(X, 4)[1].ravel(), minlength=len(X))
    assert degrees.max() <= 5


def test_very_many_copies_take_no_longer_than_sorting(rng):
    X = np.zeros((100_000, 3))  # 10^10 pairs
    assert nearest_neighbors(X, 5)[1].shape == (100_000, 5)
