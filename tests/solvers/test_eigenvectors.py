"""Signs of eigenvectors do not depend on the processor."""

import numpy as np
from scipy import sparse

from bagwise.compute.arrays import eigenvectors, with_fixed_signs
from bagwise.solvers.spectral import leading_eigenvectors
from cases import each


def similarity(n, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n, n))
    return A @ A.T / n


def test_the_largest_entry_decides_the_sign(rng):
    vectors = rng.normal(size=(7, 5))
    found = with_fixed_signs(vectors)
    largest = np.abs(vectors).argmax(axis=0)
    assert (found[largest, range(5)] > 0).all()
    np.testing.assert_array_equal(np.abs(found), np.abs(vectors))
    np.testing.assert_array_equal(with_fixed_signs(-vectors), found)


@each("order", [1, -1])
def test_of_entries_equal_up_to_rounding_the_first_decides(order):
    column = np.array([0.1, 0.5, -0.5 * (1 + order * 1e-12), 0.2])[:, None]
    np.testing.assert_array_equal(with_fixed_signs(column), column)
    np.testing.assert_array_equal(with_fixed_signs(-column), column)


def test_no_columns_and_columns_of_zeros_stay():
    assert with_fixed_signs(np.empty((4, 0))).shape == (4, 0)
    np.testing.assert_array_equal(with_fixed_signs(np.zeros((3, 2))), np.zeros((3, 2)))


def test_single_precision_stays(rng):
    assert with_fixed_signs(rng.normal(size=(4, 2)).astype(np.float32)).dtype == np.float32


def test_part_of_a_spectrum():
    matrix = similarity(12)
    values, vectors = eigenvectors(matrix, 3, 7)
    every, all_vectors = np.linalg.eigh(matrix)
    np.testing.assert_allclose(values, every[3:8])
    np.testing.assert_allclose(vectors, with_fixed_signs(all_vectors[:, 3:8]), atol=1e-10)


@each("n", [20, 300])  # as a whole, and in a Krylov space
def test_leading_eigenvectors(n):
    operator = sparse.csr_array(similarity(n))
    rng = np.random.RandomState(0)
    vectors, values = leading_eigenvectors(operator, 3, rng, tol=1e-10).solution
    every, all_vectors = np.linalg.eigh(operator.toarray())
    np.testing.assert_allclose(values, every[: -3 - 1 : -1])
    np.testing.assert_allclose(vectors, with_fixed_signs(all_vectors[:, :-4:-1]), atol=1e-8)


@each("scale", [1e-8, 1.0, 1e8])
def test_a_block_that_lacks_rank(scale):
    """Of rank 2, in any unit: what is left of other vectors is rounding, and is replaced."""
    rng = np.random.default_rng(0)
    U = np.linalg.qr(rng.normal(size=(200, 2)))[0]
    operator = sparse.csr_array(scale * (U * [3.0, 2.0]) @ U.T)
    result = leading_eigenvectors(operator, 5, np.random.RandomState(0), tol=1e-8)
    vectors, values = result.solution
    assert result.converged
    np.testing.assert_allclose(values, scale * np.array([3.0, 2, 0, 0, 0]), atol=1e-12 * scale)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(5), atol=1e-10)
