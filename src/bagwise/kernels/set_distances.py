"""Nearest neighbours from rows to bags: the inner loop of every Hausdorff-type distance."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

__all__ = ["nearest_in_bags", "pair_distances"]

_compiled = numba.njit(nogil=True, cache=True)


def nearest_in_bags(
    distances: NDArray[Any], offsets: NDArray[np.int64]
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """For each row, the smallest entry among the columns of each bag, and its column.

    Parameters
    ----------
    distances : ndarray of shape (n_rows, n_instances)
        Row to instance; anything monotone in the distance will do.
    offsets : ndarray of shape (n_bags + 1,)
        Which columns belong to which bag.

    Returns
    -------
    smallest : ndarray of shape (n_rows, n_bags)
        ``inf`` for an empty bag.
    column : ndarray of int64 of shape (n_rows, n_bags)
        The first column that attains it.
    """
    shape = (len(distances), len(offsets) - 1)
    smallest, column = np.empty(shape, distances.dtype), np.empty(shape, np.int64)
    _nearest_in_bags(np.ascontiguousarray(distances), offsets, smallest, column)
    return smallest, column


def pair_distances(
    X: NDArray[Any], Y: NDArray[Any], rows: NDArray[np.int64], columns: NDArray[np.int64]
) -> NDArray[Any]:
    """Squared Euclidean distances of single pairs, by direct differences.

    A product finds the nearest pair fast; its value suffers cancellation when the pair is close.

    Parameters
    ----------
    X, Y : ndarray of shape (n, n_features), (m, n_features)
        Two tables.
    rows, columns : ndarray of int64 of shape (n_pairs,)
        The pairs.

    Returns
    -------
    ndarray of shape (n_pairs,)
    """
    out = np.empty(len(rows))
    _pair_distances(X, Y, rows, columns, out)
    return out


@_compiled
def _nearest_in_bags(distances, offsets, smallest, column):  # type: ignore[no-untyped-def]
    for i in range(distances.shape[0]):
        for bag in range(len(offsets) - 1):
            best, place = np.inf, offsets[bag]
            for j in range(offsets[bag], offsets[bag + 1]):
                if distances[i, j] < best:
                    best, place = distances[i, j], j
            smallest[i, bag], column[i, bag] = best, place


@_compiled
def _pair_distances(X, Y, rows, columns, out):  # type: ignore[no-untyped-def]
    for p in range(len(rows)):
        total = 0.0
        for k in range(X.shape[1]):
            difference = np.float64(X[rows[p], k]) - np.float64(Y[columns[p], k])
            total += difference * difference
        out[p] = total
