r"""An orthonormal basis of the column space of a tall table, read in blocks of rows.

U = X T with U'U = I and UU' = XX^+, by Cholesky QR: the Gram matrix G = X'X is accumulated over
blocks of rows, and T is the inverse of its Cholesky factor. The columns are first scaled to length
one: the span does not change, and the factorisation would break down on features of very different
scales. If the factor is ill-conditioned, eigenvectors and a second pass are used; with fewer rows
than columns, the eigenvectors of XX'.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import cholesky, qr, solve_triangular
from scipy.linalg.lapack import dpocon

from bagwise._common.types import Array, Floats
from bagwise.compiled.lapack import eigenvectors
from bagwise.engines.arrays import centred_blocks, column_sums, empty, upper_gram

COLUMNS = 256  # columns of a square matrix per block
# Gram matrices contain squares: relative eigenvalues below this are rounding errors.
RANK_TOLERANCE = 1e-12
# Below this rcond the Cholesky factor of a Gram matrix is inaccurate in its smallest directions.
SMALLEST_RCOND = {False: 1e-6, True: 1e-10}  # with products in float32, in float64
# Products in single precision are repeated in double precision if U'U is this far from I.
LARGEST_LOSS = 1e-3


@dataclass(frozen=True)
class ColumnSpan:
    """A basis U = (X - mean) T of the column space of X.

    Attributes
    ----------
    basis : ndarray of shape (n_rows, rank)
        U.
    mean : ndarray of shape (n_columns,)
        Mean subtracted from each column; zeros without centring.
    to_columns : callable
        Multiplies T with coefficients, which may be overwritten: maps coefficients of the basis to
        coefficients of the columns of X.
    shrunk : bool
        Whether a ridge made the columns of U shorter than one.
    """

    basis: Array
    mean: Floats
    to_columns: Callable[[Array], Array]
    shrunk: bool = False

    @property
    def rank(self) -> int:
        """Dimension of the span."""
        return self.basis.shape[1]

    @property
    def dimension(self) -> float:
        """Effective dimension, the trace of UU'; the rank without ridge."""
        return float(np.vdot(self.basis, self.basis)) if self.shrunk else self.rank


def column_span(X: Any, *, center: bool) -> ColumnSpan:
    """Find a basis of the column space of X.

    Parameters
    ----------
    X : ndarray or CSR of shape (n_rows, n_columns)
        The table; may be memory-mapped. float32 or float64.
    center : bool
        Whether columns are centred first.

    Returns
    -------
    ColumnSpan
    """
    mean = _mean(X, center)
    n, d = X.shape
    if n <= d:
        return _span_of_few_rows(X, mean, n, 0.0, scaled=True)
    single = X.dtype == np.float32
    for double in (False, True) if single else (True,):
        span = _span_by_cholesky(X, mean, double=double)
        if span is not None:
            return span
    return _span_by_eigenvectors(X, mean)


def leading_span(X: Any, *, center: bool, n_components: int | None, ridge: float) -> ColumnSpan:
    """Keep the leading principal directions of X, or shrink the others.

    Parameters
    ----------
    X : ndarray or CSR of shape (n_rows, n_columns)
        The table.
    center : bool
        Whether columns are centred first.
    n_components : int or None
        Number of directions; all by default.
    ridge : float
        Added to the squared singular values w: U = V sqrt(w / (w + ridge)).

    Returns
    -------
    ColumnSpan
        U'U = I without ridge.
    """
    mean = _mean(X, center)
    n, d = X.shape
    keep = min(n, d) if n_components is None else min(n_components, n, d)
    if n <= d:
        return _span_of_few_rows(X, mean, keep, ridge, scaled=False)
    values, vectors = _leading(upper_gram(X, mean), keep)
    return _with_matrix(X, mean, vectors / np.sqrt(values + ridge), shrunk=ridge > 0)


def _span_of_few_rows(X: Any, mean: Floats, keep: int, ridge: float, *, scaled: bool) -> ColumnSpan:
    """Span from the eigenvectors of XX'; scaled columns make the rank decision more reliable."""
    scale = np.sqrt(_squares(X, mean)) if scaled else np.ones(X.shape[1])
    scale[scale <= RANK_TOLERANCE * scale.max(initial=0)] = 1.0
    if sparse.issparse(X):
        rows: Any = (X @ sparse.diags_array(1 / scale)).tocsr()
        gram = (rows @ rows.T).toarray()
        shift = rows @ (mean / scale)
        gram += (mean / scale) @ (mean / scale) - shift - shift[:, None]
    else:
        rows = (np.asarray(X, dtype=np.float64) - mean) / scale
        gram = np.matmul(rows, rows.T)
    values, vectors = _leading(gram, keep)
    basis = vectors * np.sqrt(values / (values + ridge))
    back = rows.T @ vectors
    if sparse.issparse(X):
        back -= np.outer(mean / scale, vectors.sum(axis=0))
    back /= scale[:, None] * np.sqrt(values * (values + ridge))
    if scaled:
        row_space = _orthonormal(back * scale[:, None] ** 2)  # as in _span_by_eigenvectors
        back = row_space @ (row_space.T @ back)
    basis, back = basis.astype(X.dtype), back.astype(X.dtype)
    return ColumnSpan(basis, mean, back.__matmul__, shrunk=ridge > 0)


def _span_by_cholesky(X: Any, mean: Floats, *, double: bool) -> ColumnSpan | None:
    """Span with products in float64, or in the dtype of X; None if that is not precise enough."""
    gram, scale = _scaled_gram(X, mean, double=double)
    norm = norm_of_upper(gram)
    try:
        factor = cholesky(gram, overwrite_a=True, check_finite=False)
    except np.linalg.LinAlgError:
        return None
    if dpocon(factor, norm)[0] < SMALLEST_RCOND[double]:
        return None
    del gram  # free memory for U
    factor = factor.astype(X.dtype, order="F", copy=False)

    def to_columns(coefficients: Array) -> Array:
        solved = solve_triangular(factor, coefficients, overwrite_b=True, check_finite=False)
        return solved / scale[:, None]

    span = ColumnSpan(_whiten(X, mean, scale, factor), mean, to_columns)
    if not double and _loss_of_orthogonality(span.basis) > LARGEST_LOSS:
        return None
    return span


def _scaled_gram(X: Any, mean: Floats, *, double: bool = True) -> tuple[Floats, Floats]:
    """X'X scaled to ones on its diagonal, and the scale of the columns."""
    gram = upper_gram(X, mean, double=double)
    scale = np.sqrt(gram.diagonal())
    scale[scale <= RANK_TOLERANCE * scale.max(initial=0)] = 1.0  # constant columns stay zero
    gram /= scale
    gram /= scale[:, None]
    return gram, scale


def _span_by_eigenvectors(X: Any, mean: Floats) -> ColumnSpan:
    """Span of (nearly) linearly dependent columns; a second pass makes U orthonormal."""
    gram, scale = _scaled_gram(X, mean)
    matrix = shortest_basis(gram, scale)
    if matrix.shape[1] == 0:  # all instances are equal
        return _with_matrix(X, mean, matrix)
    first = _with_matrix(X, mean, matrix).basis
    again = upper_gram(first, np.zeros(first.shape[1]))
    with suppress(np.linalg.LinAlgError):
        matrix = solve_triangular(cholesky(again), matrix.T, trans="T").T
    return _with_matrix(X, mean, matrix)


def shortest_basis(gram: Floats, scale: Floats) -> Floats:
    """Compute T = X^+ U for (nearly) linearly dependent columns.

    This is the T of smallest norm with XT = U: it lies in the row space of X.

    Parameters
    ----------
    gram : ndarray of shape (n_columns, n_columns)
        X'X with ones on its diagonal; the upper triangle is read.
    scale : ndarray of shape (n_columns,)
        Scale of the columns of X.

    Returns
    -------
    ndarray of shape (n_columns, rank)
    """
    values, vectors = _leading(gram, len(gram))
    row_space = _orthonormal(vectors * scale[:, None])
    return row_space @ (row_space.T @ (vectors / np.sqrt(values) / scale[:, None]))


def _with_matrix(X: Any, mean: Floats, matrix: Floats, *, shrunk: bool = False) -> ColumnSpan:
    matrix = matrix.astype(X.dtype)
    basis = empty(X, (X.shape[0], matrix.shape[1]))
    for rows, block in centred_blocks(X, mean):
        np.matmul(block, matrix, out=basis[rows])
    return ColumnSpan(basis, mean, matrix.__matmul__, shrunk)


def _leading(gram: Floats, keep: int) -> tuple[Floats, Floats]:
    """The largest eigenvalues above rounding, in decreasing order, and their eigenvectors."""
    n = len(gram)
    values, vectors = eigenvectors(gram, n - keep, n - 1, lower=False)
    values, vectors = values[::-1], vectors[:, ::-1]
    real = values > RANK_TOLERANCE * max(values[0], np.finfo(np.float64).tiny)
    return values[real], vectors[:, real]


def _orthonormal(columns: Floats) -> Floats:
    if columns.shape[1] == 0:
        return columns
    return qr(columns, mode="economic", check_finite=False)[0]


def _mean(X: Any, center: bool) -> Floats:
    return column_sums(X) / X.shape[0] if center else np.zeros(X.shape[1])


def _squares(X: Any, mean: Floats) -> Floats:
    total = np.zeros(X.shape[1])
    for _, block in centred_blocks(X, mean, double=True):
        total += np.einsum("ij,ij->j", block, block)
    return total


def _whiten(X: Any, mean: Floats, scale: Floats, factor: Array) -> Array:
    """(X - mean) diag(1 / scale) factor^(-1), block by block in place."""
    basis = empty(X, X.shape)
    weights = (1 / scale).astype(X.dtype)
    for rows, block in centred_blocks(X, mean):
        np.multiply(block, weights, out=basis[rows])
        basis[rows] = solve_triangular(
            factor, basis[rows].T, trans="T", overwrite_b=True, check_finite=False
        ).T
    return basis


def _loss_of_orthogonality(U: Array) -> float:
    """Estimate |U'U v - v| / |v| from a few random v: sqrt(d) times the largest entry error."""
    probes = np.random.RandomState(0).standard_normal((U.shape[1], 4)).astype(U.dtype)
    return float(np.linalg.norm(U.T @ (U @ probes) - probes) / np.linalg.norm(probes))


def norm_of_upper(gram: Array) -> float:
    """1-norm of a symmetric matrix given by its upper triangle; the lower triangle is zero.

    Parameters
    ----------
    gram : ndarray of shape (n, n)
        The upper triangle.

    Returns
    -------
    float
    """
    sums = -np.abs(gram.diagonal())
    for start in range(0, len(gram), COLUMNS):
        upper = np.abs(gram[:, start : start + COLUMNS])
        sums += upper.sum(axis=1)
        sums[start : start + COLUMNS] += upper.sum(axis=0)
    return float(sums.max(initial=0))
