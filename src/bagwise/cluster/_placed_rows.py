"""Nearest neighbours of instances that are distributed over the workers of a cluster.

Comparing n rows with n rows takes n^2 d operations. Each worker compares its own rows with blocks
of rows that are sent to all workers, and returns a few neighbours per row.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.neighbors import NearestNeighbors

from bagwise._common.types import Array, Ints
from bagwise.bags import Bags
from bagwise.engines import Part, Parts, local_instances, over_partitions, place, retry_on_new_parts

BLOCK = 2**22  # values sent to the workers at once


@contextmanager
def rows_in_order(bags: Bags, order: Ints) -> Iterator[Any]:
    """Yield the instances in a given order: a local table, or rows that stay on their workers.

    Parameters
    ----------
    bags : Bags
        The bags.
    order : ndarray of int of shape (n_instances,)
        The index of the instance in each row.

    Yields
    ------
    ndarray, CSR or PlacedRows
    """
    table = local_instances(bags)
    if table is not None:
        yield table[order]
        return
    with place(bags, NeighborPart, bags.offsets[:-1]) as parts:
        yield PlacedRows(bags, order, parts)


class PlacedRows:
    """Rows on the workers of a cluster, read like a table.

    Parameters
    ----------
    bags : Bags
        The bags.
    order : ndarray of int of shape (n_instances,)
        The index of the instance in each row.
    """

    def __init__(self, bags: Bags, order: Ints, parts: Parts) -> None:
        self.bags, self.order, self._parts = bags, order, parts
        self.shape, self.dtype = (bags.n_instances, bags.n_features), bags.dtype

    def __getitem__(self, rows: Any) -> Any:
        """Collect rows in this process."""
        ranked, places = np.unique(self.order[rows], return_inverse=True)
        return retry_on_new_parts(self._parts, lambda: self._rows_at(ranked))[places]

    def map(self, function: Callable[[Any], Any]) -> Any:
        """Apply a function to the rows on their workers.

        Parameters
        ----------
        function : callable
            From a table to a table with as many rows.

        Returns
        -------
        ndarray or CSR
        """
        return over_partitions(lambda bags: function(bags.instances), self.bags)[self.order]

    def nearest(self, k: int) -> tuple[Array, Ints]:
        """Find the k nearest other rows of each row.

        Parameters
        ----------
        k : int
            Number of neighbours.

        Returns
        -------
        distances, neighbors : ndarray of shape (n_rows, k)
            Nearest first.
        """
        n = self.shape[0]
        step = max(1, BLOCK // max(1, self.shape[1]))

        def search() -> list[tuple[Array, Array]]:
            self._parts.do("begin", k)
            for start in range(0, n, step):
                block = self._rows_at(np.arange(start, min(start + step, n)))
                self._parts.do("search", block, start)
            return self._parts.each("found")

        distances, neighbors = zip(*retry_on_new_parts(self._parts, search), strict=True)
        row_of = np.argsort(self.order)
        return (
            np.concatenate(distances)[self.order],
            row_of[np.concatenate(neighbors)[self.order]],
        )

    def _rows_at(self, rows: Ints) -> Any:
        """Collect instances by increasing indices; fails if a worker fails, so callers retry."""
        found = self._parts.each("rows_at", rows)
        in_csr = sparse.issparse(found[0])
        return sparse.vstack(found, format="csr") if in_csr else np.concatenate(found)


class NeighborPart(Part):
    """A block of whole bags, and the nearest rows found so far for each of its instances.

    Parameters
    ----------
    bags : Bags
        The bags.
    first_rows : ndarray of int64 of shape (n_bags,)
        The index of the first instance of each bag, among all bags.
    """

    def __init__(self, bags: Bags, first_rows: Ints) -> None:
        self.X = bags.instances
        self.numbers = first_rows[0] + np.arange(bags.n_instances)

    def rows_at(self, rows: Ints) -> Any:
        """Return those of the instances with the given indices that are in this part."""
        first, last = self.numbers[0], self.numbers[-1]
        return self.X[rows[(rows >= first) & (rows <= last)] - first]

    def begin(self, k: int) -> None:
        """Start a search for the `k` nearest rows."""
        self.k = k
        self.distances = np.empty((len(self.numbers), 0))
        self.neighbors = np.empty((len(self.numbers), 0), np.intp)

    def search(self, block: Any, start: int) -> None:
        """Update the nearest rows with a block of rows, whose indices begin at `start`."""
        search = NearestNeighbors(n_neighbors=min(self.k + 1, block.shape[0])).fit(block)
        distances, neighbors = search.kneighbors(self.X)
        neighbors += start
        distances[neighbors == self.numbers[:, None]] = np.inf  # the instance itself
        distances = np.hstack([self.distances, distances])
        neighbors = np.hstack([self.neighbors, neighbors])
        nearest = np.argsort(distances, axis=1, kind="stable")[:, : self.k]
        self.distances = np.take_along_axis(distances, nearest, axis=1)
        self.neighbors = np.take_along_axis(neighbors, nearest, axis=1)

    def found(self) -> tuple[Array, Ints]:
        """Distances and indices of the nearest rows."""
        return self.distances, self.neighbors
