"""Eigenvectors, their signs, and products of symmetric matrices."""

import numpy as np
from scipy import linalg

from bagwise.compute import arrays
from cases import each

N = 40


@each("dtype", [np.float32, np.float64])
def test_eigenvectors_are_scipys(dtype, rng):
    A = rng.normal(size=(2 * N, N))
    matrix = (A.T @ A + np.eye(N)).astype(dtype)
    for first, last in ((0, 0), (3, 7), (0, N - 1)):
        values, vectors = arrays.eigenvectors(np.tril(matrix), first, last)
        expected = linalg.eigh(matrix, subset_by_index=[first, last])
        np.testing.assert_allclose(values, expected[0], rtol=1e-4)
        overlap = np.abs(vectors.T @ expected[1])  # determined up to their sign
        np.testing.assert_allclose(overlap, np.eye(last - first + 1), atol=1e-3)


def test_many_equal_eigenvalues():
    matrix = np.kron(np.eye(60), np.ones((5, 5)))
    values, vectors = arrays.eigenvectors(matrix, 240, 299)
    np.testing.assert_allclose(values, 5)
    np.testing.assert_allclose(matrix @ vectors, 5 * vectors, atol=1e-12)


@each("dtype", [np.float32, np.float64])
def test_product_is_added_in_place(dtype, rng):
    total = np.asfortranarray(np.triu(rng.normal(size=(9, 9))), dtype)
    block = rng.normal(size=(20, 9)).astype(dtype)
    expected = np.triu(total - 2 * block.T @ block)
    arrays.add_product(total, block, -2.0)
    np.testing.assert_allclose(np.triu(total), expected, atol=1e-4)
    assert total.dtype == dtype
    arrays.add_product(total, block[:0])
    np.testing.assert_allclose(np.triu(total), expected, atol=1e-4)
