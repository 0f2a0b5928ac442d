"""A few operations on arrays that numpy and torch call differently."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from sklearn.utils.extmath import safe_sparse_dot

__all__ = ["add", "eigh", "is_tensor", "like", "product", "to_numpy"]


def is_tensor(array: Any) -> bool:
    """Tell whether an array is a torch tensor, without importing torch.

    Parameters
    ----------
    array : object
        Anything.

    Returns
    -------
    bool
    """
    return type(array).__module__.partition(".")[0] == "torch"


def to_numpy(array: Any) -> Any:
    """Bring a tensor here; everything else is here already.

    Parameters
    ----------
    array : tensor or object
        What a part returned.

    Returns
    -------
    ndarray or object
    """
    return array.detach().cpu().numpy() if is_tensor(array) else array


def like(array: NDArray[Any], other: Any) -> Any:
    """Bring a numpy array to where another one is, in its precision.

    Parameters
    ----------
    array : ndarray
        The values.
    other : ndarray or tensor
        Shows where and in which type.

    Returns
    -------
    ndarray or tensor
    """
    if is_tensor(other):
        return other.new_tensor(array)
    return np.asarray(array, dtype=other.dtype)


def product(X: Any, W: Any) -> Any:
    """X W' as a dense array, where X is.

    Parameters
    ----------
    X : ndarray, CSR or tensor of shape (n_instances, n_features)
        The instances.
    W : ndarray or tensor of shape (n_columns, n_features)
        What they are multiplied with.

    Returns
    -------
    ndarray or tensor of shape (n_instances, n_columns)
    """
    if is_tensor(X):
        return X @ (W if is_tensor(W) else X.new_tensor(W)).T
    return safe_sparse_dot(X, W.T, dense_output=True)


def eigh(matrix: Any) -> tuple[Any, Any]:
    """Eigenvalues and eigenvectors of a symmetric matrix, where it is.

    Parameters
    ----------
    matrix : ndarray or tensor of shape (n, n)
        The matrix.

    Returns
    -------
    values, vectors
    """
    if is_tensor(matrix):
        from bagwise.extras import import_extra

        return tuple(import_extra("torch", extra="torch").linalg.eigh(matrix))
    return linalg.eigh(matrix, driver="evd", check_finite=False)


def add(answers: list[Any]) -> Any:
    """Add up what parts answered: arrays, numbers, or tuples of them; None stays None.

    Parameters
    ----------
    answers : list
        One answer per part, all alike.

    Returns
    -------
    object
        An answer of the same kind.
    """
    first = answers[0]
    if len(answers) == 1 or first is None:
        return first
    if isinstance(first, tuple):
        return tuple(add(list(column)) for column in zip(*answers, strict=True))
    total = first + answers[1]
    for answer in answers[2:]:
        total += answer
    return total
