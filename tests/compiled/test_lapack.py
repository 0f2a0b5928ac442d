"""LAPACK without the GIL: the results equal SciPy's, and a waiting thread can be interrupted."""

import threading
import time

import numpy as np
import pytest
from scipy import linalg
from scipy.linalg import blas

from bagwise.compiled import lapack

N = 40


def assert_close(found, expected):
    """Equal up to rounding, which depends on the BLAS kernel of the processor."""
    largest = np.abs(expected).max(initial=0)
    atol = 100 * np.finfo(expected.dtype).eps * largest
    np.testing.assert_allclose(found, expected, rtol=0, atol=atol)
    assert found.dtype == expected.dtype


@pytest.fixture(params=[np.float32, np.float64])
def matrix(request):
    A = np.random.default_rng(0).normal(size=(2 * N, N))
    return (A.T @ A + np.eye(N)).astype(request.param)


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("lower", [False, True])
def test_cholesky_is_scipys(matrix, lower, large, monkeypatch):
    if large:
        monkeypatch.setattr(lapack, "LARGE", 0)
    before = matrix.copy()
    factor = lapack.cholesky(matrix, lower=lower)
    assert_close(factor, linalg.cholesky(matrix, lower=lower))
    right = np.arange(3.0 * N).reshape(N, 3).astype(matrix.dtype)
    for each in (right, right[:, 0]):
        expected = linalg.cho_solve((factor, lower), each)
        assert_close(lapack.cholesky_solve(factor, each, lower=lower), expected)
    if lower:
        inverse = lapack.cholesky_inverse(factor)
        np.testing.assert_allclose(inverse @ matrix, np.eye(N), atol=1e-3)
        np.testing.assert_array_equal(inverse, inverse.T)
    np.testing.assert_array_equal(matrix, before)
    assert factor.dtype == matrix.dtype


def test_cholesky_tells_where_it_fails():
    with pytest.raises(np.linalg.LinAlgError, match="block of 3 rows"):
        lapack.cholesky(np.diag([1.0, 2.0, -1.0, 3.0]))
    assert lapack.cholesky(np.empty((0, 0))).shape == (0, 0)


def test_work_is_done_in_place_where_it_may_be(matrix):
    own = np.asfortranarray(matrix)
    assert np.shares_memory(lapack.cholesky(own, overwrite=True), own)
    right = np.ones((3, N), matrix.dtype).T
    assert np.shares_memory(lapack.solve_upper(own, right, overwrite=True), right)


@pytest.mark.parametrize("lower", [False, True])
def test_eigenvectors_are_scipys(matrix, lower):
    one_side = np.tril(matrix) if lower else np.triu(matrix)
    for first, last in ((0, 0), (3, 7), (0, N - 1)):
        values, vectors = lapack.eigenvectors(one_side, first, last, lower=lower)
        expected = linalg.eigh(one_side, lower=lower, subset_by_index=[first, last])
        assert_close(values, expected[0])
        # The eigenvalues differ, so that vectors are determined up to their sign.
        n_found = last - first + 1
        overlap = np.abs(vectors.T @ expected[1])
        np.testing.assert_allclose(overlap, np.eye(n_found), atol=1e-3)


def test_all_eigenvectors_are_scipys_in_the_memory_of_the_matrix(matrix):
    upper = np.asfortranarray(np.triu(matrix))
    values, vectors = lapack.all_eigenvectors(upper)
    assert vectors is upper
    expected = linalg.eigh(matrix)
    assert_close(values, expected[0])
    np.testing.assert_allclose(np.abs(vectors.T @ expected[1]), np.eye(N), atol=1e-3)
    one = np.array([[2.0]], order="F")
    assert lapack.all_eigenvectors(one)[0] == 2.0


@pytest.mark.parametrize("transposed", [False, True])
def test_triangular_solve_is_scipys(matrix, transposed):
    factor = linalg.cholesky(matrix)
    right = np.arange(5.0 * N).reshape(N, 5)
    (trsm,) = linalg.get_blas_funcs(("trsm",), (factor, right))
    assert_close(
        lapack.solve_upper(factor, right, transposed=transposed),
        trsm(1.0, factor, right, trans_a=transposed),
    )


def test_product_is_scipys():
    rng = np.random.default_rng(1)
    total, block = np.asfortranarray(np.triu(rng.normal(size=(9, 9)))), rng.normal(size=(20, 9))
    expected = blas.dsyrk(-2.0, block.T, beta=1.0, c=total)
    lapack.add_product(total, block, -2.0)
    assert_close(total, expected)
    lapack.add_product(total, block[:0])
    assert_close(total, expected)


def test_other_threads_run_meanwhile():
    """SciPy's eigh and cholesky would stop them, and with them Ctrl-C, for the whole call."""
    n = 700
    A = np.random.default_rng(0).normal(size=(n, n))
    A = A @ A.T + n * np.eye(n)
    done = threading.Event()

    def work():
        for _ in range(3):
            lapack.cholesky_inverse(lapack.cholesky(A, lower=True, clean=False))
            lapack.eigenvectors(A, n - 3, n - 1)
        done.set()

    thread = threading.Thread(target=work)
    ticks = 0
    thread.start()
    while not done.is_set():
        time.sleep(0.001)
        ticks += 1
    thread.join()
    assert ticks > 20  # a handful, were the GIL held
