"""Dense linear algebra that Ctrl-C can interrupt: LAPACK and BLAS without the GIL.

SciPy's functions for symmetric matrices hold the GIL until they return, on any thread, and no
signal is handled until then. Here the same routines are called through the function pointers of
``scipy.linalg.cython_lapack``: ctypes releases the GIL, and long calls go through
`threads.interruptible`. The results are those of SciPy's functions up to rounding.

Matrices are real, float32 or float64, and in Fortran order; others are copied.
"""

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from scipy.linalg import cython_blas, cython_lapack

from bagwise._common.types import Array
from bagwise.compiled.threads import interruptible

NEAR = 1e-6  # relative distance from the largest entry at which entries count as equal
LARGE = 10**7  # multiplications: 10 ms, and much more if BLAS threads wait for each other


def cholesky(
    matrix: Array, *, lower: bool = False, clean: bool = True, overwrite: bool = False
) -> Array:
    """Triangular R with R'R = matrix, or L with LL' = matrix.

    Parameters
    ----------
    matrix : ndarray of shape (n, n)
        Symmetric; one triangle is read.
    lower : bool, default=False
        Whether the lower triangle is read, and L returned.
    clean : bool, default=True
        Whether the other triangle of the result is set to zero.
    overwrite : bool, default=False
        Whether the matrix may be overwritten.

    Returns
    -------
    ndarray of shape (n, n)

    Raises
    ------
    LinAlgError
        If the matrix is not positive definite.
    """
    factor, n = _own(matrix, overwrite), len(matrix)
    triangle = "L" if lower else "U"
    failed = _call("potrf", n**3 // 3, factor.dtype, triangle, n, factor, max(n, 1), 0)
    if failed:
        raise np.linalg.LinAlgError(f"the leading block of {failed} rows is not positive definite")
    if clean:
        for k in range(n):  # column by column: a mask of a large matrix would be as large
            factor[(slice(k) if lower else slice(k + 1, n)), k] = 0
    return factor


def cholesky_solve(
    factor: Array, right: Array, *, lower: bool = False, overwrite: bool = False
) -> Array:
    """Solve a linear system, given the `cholesky` factor of its matrix.

    Parameters
    ----------
    factor : ndarray of shape (n, n)
        R or L.
    right : ndarray of shape (n,) or (n, m)
        The right-hand sides.
    lower : bool, default=False
        Whether the factor is L.
    overwrite : bool, default=False
        Whether the right-hand sides may be overwritten.

    Returns
    -------
    ndarray of the shape of right
    """
    factor, found = _alike(factor, right, overwrite)
    n, m = len(factor), found.size // max(len(factor), 1)
    triangle, height = "L" if lower else "U", max(n, 1)
    _call("potrs", 2 * n * n * m, found.dtype, triangle, n, m, factor, height, found, height, 0)
    return found


def cholesky_inverse(factor: Array) -> Array:
    """Inverse of a matrix, given its lower `cholesky` factor.

    Parameters
    ----------
    factor : ndarray of shape (n, n)
        L.

    Returns
    -------
    ndarray of shape (n, n)
        Symmetric.
    """
    found, n = _own(factor), len(factor)
    _call("potri", 2 * n**3 // 3, found.dtype, "L", n, found, max(n, 1), 0)
    return np.tril(found) + np.tril(found, -1).T


def eigenvectors(
    matrix: Array, first: int, last: int, *, lower: bool = True
) -> tuple[Array, Array]:
    """Eigenvalues `first` to `last` in ascending order, and their eigenvectors.

    LAPACK's driver for a part of the spectrum (syevr) fails on some matrices with many equal
    eigenvalues, such as those of 0/1 token features; these are decomposed as a whole.

    Parameters
    ----------
    matrix : ndarray of shape (n, n)
        Symmetric.
    first, last : int
        Indices of eigenvalues, 0 for the smallest; both are included.
    lower : bool, default=True
        Which triangle of the matrix is read.

    Returns
    -------
    values : ndarray of shape (last - first + 1,)
    vectors : ndarray of shape (n, last - first + 1)
        With the signs of `with_fixed_signs`.
    """
    try:
        values, vectors = _syevr(matrix, first, last, lower)
    except np.linalg.LinAlgError:
        values, vectors = interruptible(np.linalg.eigh, matrix, "L" if lower else "U")
        values, vectors = values[first : last + 1], vectors[:, first : last + 1]
    return values, with_fixed_signs(vectors)


def _syevr(matrix: Array, first: int, last: int, lower: bool) -> tuple[Array, Array]:
    """Some eigenvalues and eigenvectors by LAPACK; raises LinAlgError if it fails."""
    A, n = _own(matrix), len(matrix)
    dtype, k = A.dtype, last - first + 1
    values, vectors = np.empty(n, dtype), np.empty((n, k), dtype, order="F")
    support, found = np.empty(2 * k, _int()), np.zeros(1, _int())

    def call(work: Array, n_work: int, integers: Array, n_integers: int) -> int:
        zero = np.zeros(1, dtype)  # bounds by value are not used; nor is a tolerance
        return _call(
            "syevr", 4 * n**3 // 3 if n_work > 0 else 0, dtype,
            "V", "I", "L" if lower else "U", n, A, n, zero, zero, first + 1, last + 1, zero, found,
            values, vectors, n, support, work, n_work, integers, n_integers, 0,
        )  # fmt: skip

    best, best_integers = np.empty(1, dtype), np.empty(1, _int())
    failed = call(best, -1, best_integers, -1)
    n_work, n_integers = int(best[0]), int(best_integers[0])
    if not failed:
        failed = call(np.empty(n_work, dtype), n_work, np.empty(n_integers, _int()), n_integers)
    if failed or int(found[0]) != k:
        raise np.linalg.LinAlgError("the eigenvectors were not found")
    return values[:k], vectors


def all_eigenvectors(matrix: Array) -> tuple[Array, Array]:
    """All eigenvalues, ascending, and eigenvectors of a large matrix, in place (syevd).

    Parameters
    ----------
    matrix : ndarray of shape (n, n)
        Symmetric, in Fortran order; the upper triangle is read. Overwritten by the eigenvectors.

    Returns
    -------
    values : ndarray of shape (n,)
    vectors : ndarray of shape (n, n)
        With arbitrary signs; `matrix` itself.

    Raises
    ------
    LinAlgError
        If LAPACK fails.
    """
    n, dtype = len(matrix), matrix.dtype
    values = np.empty(n, dtype)

    def call(work: Array, n_work: int, integers: Array, n_integers: int) -> int:
        return _call(
            "syevd", 4 * n**3 // 3 if n_work > 0 else 0, dtype,
            "V", "U", n, matrix, max(n, 1), values, work, n_work, integers, n_integers, 0,
        )  # fmt: skip

    n_work, n_integers = 1 + 6 * n + 2 * n**2, 3 + 5 * n  # as LAPACK documents them
    if call(np.empty(n_work, dtype), n_work, np.empty(n_integers, _int()), n_integers):
        raise np.linalg.LinAlgError("the eigenvectors were not found")
    return values, matrix


def with_fixed_signs(vectors: Array) -> Array:
    """Give each column the sign that makes its largest entry positive.

    The sign of a computed eigenvector is arbitrary and depends on the processor. As in
    :func:`sklearn.utils.extmath.svd_flip`, the entry of largest absolute value decides; among
    entries that differ only by rounding, the first. Eigenvectors of equal eigenvalues may still be
    any basis of their common space.

    Parameters
    ----------
    vectors : ndarray of shape (n, n_vectors)
        Columns with arbitrary sign.

    Returns
    -------
    ndarray of shape (n, n_vectors)

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.compiled.lapack import with_fixed_signs
    >>> with_fixed_signs(np.array([[0.6, 0.8], [-0.8, 0.6]]))
    array([[-0.6,  0.8],
           [ 0.8,  0.6]])
    """
    if vectors.size == 0:
        return vectors
    sizes = np.abs(vectors)
    first = (sizes >= (1 - NEAR) * sizes.max(axis=0)).argmax(axis=0)
    negative = vectors[first, np.arange(vectors.shape[1])] < 0
    return vectors * np.where(negative, -1, 1).astype(vectors.dtype)


def solve_upper(
    factor: Array, right: Array, *, transposed: bool = False, overwrite: bool = False
) -> Array:
    """Solve R x = right, or R' x = right, for an upper triangular R.

    Parameters
    ----------
    factor : ndarray of shape (n, n)
        R.
    right : ndarray of shape (n, m)
        The right-hand sides.
    transposed : bool, default=False
        Whether to solve with R' instead of R.
    overwrite : bool, default=False
        Whether the right-hand sides may be overwritten.

    Returns
    -------
    ndarray of shape (n, m)
    """
    factor, found = _alike(factor, right, overwrite)
    n, m = found.shape
    form = ("L", "U", "T" if transposed else "N", "N")  # left, upper, and no ones on the diagonal
    height, one = max(n, 1), np.ones(1, factor.dtype)
    _call("trsm", n * n * m, factor.dtype, *form, n, m, one, factor, height, found, height)
    return found


def add_product(total: Array, block: Array, factor: float = 1.0) -> None:
    """Add factor X'X to the upper triangle of a matrix, in place.

    Parameters
    ----------
    total : ndarray of shape (n_columns, n_columns)
        In Fortran order.
    block : ndarray of shape (n_rows, n_columns)
        X, in C order and of the same type.
    factor : float, default=1.0
        Factor of the product.
    """
    rows = np.ascontiguousarray(block, dtype=total.dtype)  # in Fortran order this is X'
    k, n = rows.shape
    if k == 0 or n == 0:
        return
    alpha, beta = np.full(1, factor, total.dtype), np.ones(1, total.dtype)
    _call("syrk", n * n * k, total.dtype, "U", "N", n, k, alpha, rows, n, beta, total, n)


def _own(matrix: Array, overwrite: bool = False, *with_: Array) -> Array:
    """The matrix as a writable array in Fortran order; a copy unless `overwrite`."""
    dtype = np.result_type(matrix, *with_, np.float32)
    return np.array(matrix, dtype, order="F", copy=None if overwrite else True)


def _alike(factor: Array, right: Array, overwrite: bool) -> tuple[Array, Array]:
    """Convert a factor and writable right-hand sides to a common type."""
    found = _own(right, overwrite, factor)
    return np.asarray(factor, dtype=found.dtype, order="F"), found


def _call(name: str, work: int, dtype: Any, *arguments: str | int | Array) -> int:
    """Call a routine; return its last argument if that is an info code (0: success), else 0."""
    function = _routine(("s" if dtype == np.float32 else "d") + name)
    passed = [_by_reference(argument) for argument in arguments]
    addresses = [address for address, _ in passed]
    if work >= LARGE:
        # The lambda refers to `passed`, which keeps the arrays alive as long as the call runs.
        interruptible(lambda: (function(*addresses), passed))
    else:
        function(*addresses)
    last = passed[-1][1]
    return int(last[0]) if isinstance(arguments[-1], int) else 0


def _by_reference(argument: str | int | Array) -> tuple[int, Any]:
    """The address of an argument, and the array that owns the memory."""
    if isinstance(argument, str):
        argument = np.frombuffer(argument.encode(), np.uint8)
    elif isinstance(argument, int):
        argument = np.array([argument], _int())
    return argument.ctypes.data, argument


@cache
def _routine(name: str) -> Callable[..., None]:
    capsule, signature = _capsule(name)
    of = ctypes.pythonapi.PyCapsule_GetPointer
    of.restype, of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    n_arguments = signature.count(b",") + 1
    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * n_arguments)  # all are pointers
    return kind(of(capsule, signature))


def _capsule(name: str) -> tuple[Any, bytes]:
    known = cython_blas.__pyx_capi__ | cython_lapack.__pyx_capi__
    of = ctypes.pythonapi.PyCapsule_GetName
    of.restype, of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    return known[name], of(known[name])


@cache
def _int() -> np.dtype[Any]:
    """Type of LAPACK's integers: those of C, unless SciPy was built with 64-bit ones."""
    plain = b"(char *, int *," in _capsule("dpotrf")[1]
    return np.dtype(np.intc if plain else np.int64)
