"""Some eigenvectors of a symmetric matrix, whatever its spectrum."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bagwise.compiled import lapack
from bagwise.compiled.threads import interruptible

__all__ = ["some_eigenvectors", "with_fixed_signs"]

NEAR = 1e-6  # entries this near to the largest, relative to it, count as equal


def with_fixed_signs(vectors: NDArray[Any]) -> NDArray[Any]:
    """Give each column the sign that makes its largest entry positive.

    An eigenvector has no sign of its own: which one comes out depends on the processor. As
    :func:`sklearn.utils.extmath.svd_flip` does, the entry of largest absolute value decides; of
    entries that differ by rounding only, the first. Where eigenvalues are equal, their eigenvectors
    may still be any basis of the common space.

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
    >>> from bagwise.solvers.spectral.eigenvectors import with_fixed_signs
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


def some_eigenvectors(
    matrix: NDArray[Any], first: int, last: int, *, lower: bool = True
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Find the eigenvalues from number `first` to number `last`, rising, and their eigenvectors.

    LAPACK's driver for a part of the spectrum gives up on some matrices of many equal eigenvalues
    (instances that are 0/1 tokens make such); these are decomposed as a whole.

    Parameters
    ----------
    matrix : ndarray of shape (n, n)
        Symmetric.
    first, last : int
        Numbers of eigenvalues, 0 for the smallest; both are included.
    lower : bool, default=True
        Which triangle of the matrix is read.

    Returns
    -------
    values : ndarray of shape (last - first + 1,)
    vectors : ndarray of shape (n, last - first + 1)
        With the signs of `with_fixed_signs`.
    """
    try:
        values, vectors = lapack.eigenvectors(matrix, first, last, lower=lower)
    except np.linalg.LinAlgError:
        values, vectors = interruptible(np.linalg.eigh, matrix, "L" if lower else "U")
        values, vectors = values[first : last + 1], vectors[:, first : last + 1]
    return values, with_fixed_signs(vectors)
