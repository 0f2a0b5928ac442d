"""Mean distances, against all pairs."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from bagwise.compiled.set_distances import mean_distances


@pytest.mark.parametrize("shape", [(1, 1, 1), (7, 3, 4), (400, 300, 2)])
def test_mean_distances_are_those_of_all_pairs(rng, shape):
    n, n_rows, n_features = shape
    X, Y = rng.normal(size=(n, n_features)), rng.normal(size=(n_rows, n_features))
    np.testing.assert_allclose(mean_distances(X, Y), cdist(Y, X).mean(axis=1))
