"""Some eigenvectors of a symmetric matrix, whatever its spectrum."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

__all__ = ["some_eigenvectors"]


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
    """
    options = {"lower": lower, "check_finite": False}
    try:
        return linalg.eigh(matrix, subset_by_index=[first, last], **options)
    except np.linalg.LinAlgError:
        values, vectors = linalg.eigh(matrix, driver="evd", **options)
        return values[first : last + 1], vectors[:, first : last + 1]
