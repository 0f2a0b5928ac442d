"""Nearest neighbours among the rows of a table that may contain many equal rows."""

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.neighbors import NearestNeighbors

from bagwise._common.types import Array, Ints
from bagwise.bags import offsets_of
from bagwise.loops.row_order import row_ranks

LEAF = 30  # rows per leaf of scikit-learn's trees


def nearest_neighbors(X: Any, n_neighbors: int) -> tuple[Array, Ints]:
    """Find the nearest other rows of each row.

    A tree cannot split equal rows: a search among n copies of a row compares n^2 pairs. If a row
    has more copies than a leaf of the tree holds, only the distinct rows are searched.

    Parameters
    ----------
    X : ndarray or CSR of shape (n_rows, n_features)
        The rows.
    n_neighbors : int
        Number of neighbours of each row; less than n_rows.

    Returns
    -------
    distances : ndarray of shape (n_rows, n_neighbors)
        Distances, increasing along each row.
    neighbors : ndarray of int64 of shape (n_rows, n_neighbors)
        Indices of the neighbours. A row with more copies than needed gets the copies that follow
        it, and after the last copy the first.
    """
    ranks = row_ranks(X)
    counts = np.bincount(ranks)
    if counts.max() <= LEAF:
        return _search(X, n_neighbors)
    copies, starts = np.argsort(ranks, kind="stable"), offsets_of(counts)
    own = np.arange(len(counts))[:, None]
    distances, near = np.zeros(own.shape), own
    if len(counts) > 1:
        found = _search(X[copies[starts[:-1]]], min(n_neighbors, len(counts) - 1))
        distances, near = np.hstack([distances, found[0]]), np.hstack([own, found[1]])
    # The n_neighbors + 1 nearest rows of each distinct row, starting with the row and its copies.
    ends = np.cumsum(counts[near], axis=1)
    slots = np.arange(n_neighbors + 1)
    group = np.column_stack([(ends <= slot).sum(axis=1) for slot in slots])
    chosen = np.take_along_axis(near, group, axis=1)
    before = np.take_along_axis(ends, group, axis=1) - counts[chosen]
    around = copies[starts[chosen] + slots - before]
    # Leave out the row itself; a row with many copies takes the copies that follow it.
    place = np.empty(len(ranks), np.int64)
    place[copies] = np.arange(len(ranks)) - np.repeat(starts[:-1], counts)
    keep = slots[:-1] + (slots[:-1] >= place[:, None])
    neighbors = np.take_along_axis(around[ranks], keep, axis=1)
    many = np.flatnonzero(counts[ranks] > n_neighbors)
    following = (place[many, None] + 1 + slots[:-1]) % counts[ranks[many], None]
    neighbors[many] = copies[starts[ranks[many], None] + following]
    by_group = np.take_along_axis(distances, group, axis=1)
    return np.take_along_axis(by_group[ranks], keep, axis=1), neighbors


def neighbor_table(values: Array, neighbors: Ints, width: int) -> sparse.csr_array:
    """A sparse table with the values of each row in the columns of its neighbours.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_neighbors)
        The values.
    neighbors : ndarray of int of shape (n_rows, n_neighbors)
        The column of each value.
    width : int
        Number of columns.

    Returns
    -------
    CSR of shape (n_rows, width)
    """
    n, k = values.shape
    ends = np.arange(0, n * k + 1, k)
    return sparse.csr_array((values.ravel(), neighbors.ravel(), ends), shape=(n, width))


def _search(X: Any, n_neighbors: int) -> tuple[Array, Ints]:
    search = NearestNeighbors(n_neighbors=n_neighbors).fit(X)
    return search.kneighbors()
