"""Dense linear algebra for symmetric matrices, where SciPy's functions need a second line."""

import numpy as np
from scipy import linalg

from bagwise._common.types import Array

NEAR = 1e-6  # relative distance from the largest entry at which entries count as equal


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
        values, vectors = linalg.eigh(
            matrix, lower=lower, subset_by_index=[first, last], check_finite=False
        )
    except np.linalg.LinAlgError:
        values = ()
    if len(values) != last - first + 1:
        values, vectors = np.linalg.eigh(matrix, "L" if lower else "U")
        values, vectors = values[first : last + 1], vectors[:, first : last + 1]
    return values, with_fixed_signs(vectors)


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
    >>> from bagwise.loops.lapack import with_fixed_signs
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
    if len(block):
        (syrk,) = linalg.get_blas_funcs(("syrk",), (total,))
        rows = np.ascontiguousarray(block, dtype=total.dtype).T  # in Fortran order
        syrk(factor, rows, beta=1.0, c=total, overwrite_c=True)
