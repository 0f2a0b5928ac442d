"""Orthonormal bases of the columns of a table, against the pseudo-inverse."""

import numpy as np

from bagwise.solvers.metric.mimlca import shortest_basis
from cases import each


@each("rank", [2, 4])
def test_the_shortest_basis_is_the_pseudo_inverse_times_the_basis(rank, rng):
    X = rng.normal(size=(30, rank)) @ rng.normal(size=(rank, 4)) * [1e-2, 1.0, 5.0, 300.0]
    scale = np.linalg.norm(X, axis=0)
    T = shortest_basis((X / scale).T @ (X / scale), scale)
    U = X @ T
    assert T.shape == (4, rank)
    np.testing.assert_allclose(U.T @ U, np.eye(rank), atol=1e-6)
    np.testing.assert_allclose(np.linalg.pinv(X, rcond=1e-9) @ U, T, rtol=1e-5, atol=1e-9)
