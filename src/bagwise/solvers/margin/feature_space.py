"""The feature space of a max-margin model: the original features, or a kernel.

A model is a weighted sum of instances, ``w = sum_i coef_i phi(x_i)``. Its training *points* are
averages of instances (one instance, or the mean of a bag), written as the rows of a sparse matrix
`combine` of shape (n_points, n_instances).
"""

import sys
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import linalg, sparse

from bagwise._common.tables import slices
from bagwise._common.types import Array, Floats, Ints
from bagwise.compute.arrays import dense
from bagwise.exceptions import InputError

# Largest number of instances whose kernel matrix is stored (72 MB); block size for more instances.
KEPT = 3000
BLOCK = 2**22
SMALL = 300  # points; for fewer a product with a Gram matrix need not look for zeros
SMALLEST, LARGEST = 1e-100, 1e100  # cost, and its product with squared lengths


@dataclass(frozen=True)
class Ties:
    """Groups of points whose multipliers have a fixed sum.

    ``P = I - Q'Q`` subtracts the mean of each group; Q has a row of unit length per group.

    Attributes
    ----------
    points : ndarray of int
        The tied points, group after group.
    starts, counts : ndarray of int of shape (n_groups,)
        Start and size of each group in `points`.
    """

    points: Ints
    starts: Ints
    counts: Ints

    def untie(self, values: Floats) -> Floats:
        """Compute ``P values`` for an array with a row per point."""
        if len(self.points) == 0:
            return values
        tied = values[self.points]
        means = np.add.reduceat(tied, self.starts) / self.counts[:, None]
        out = values.copy()
        out[self.points] = tied - np.repeat(means, self.counts, axis=0)
        return out

    def totals(self, rows: Any) -> Floats:
        """Compute ``Q rows`` for dense or sparse rows."""
        group = np.repeat(np.arange(len(self.counts)), self.counts)
        shape = (len(self.counts), rows.shape[0])
        return dense(
            sparse.csr_array((self.counts[group] ** -0.5, (group, self.points)), shape=shape) @ rows
        )


class LinearFeatures:
    """Instances with their original features, centred if they are dense.

    A shift does not change a model with a free intercept; centring reduces rounding errors.

    Parameters
    ----------
    instances : ndarray or CSR of shape (n_instances, n_features)
        The instances, in double precision.
    """

    at_once = sys.maxsize  # points at a time: no matrix is larger than the points themselves
    least_tol = 0.0  # smallest useful tolerance on margins

    def __init__(self, instances: Any) -> None:
        self.rows, self.centre = instances, np.zeros(instances.shape[1])
        if not sparse.issparse(instances):
            self.centre = instances.mean(axis=0)
            self.rows = instances - self.centre

    def take(self, chosen: Ints) -> "LinearFeatures":
        """Select instances; the centre does not change."""
        part = copy(self)
        part.rows = self.rows[chosen]
        return part

    def points(self, combine: sparse.csr_array) -> "RowPoints":
        """Compute the points: the rows of `combine` times the instances."""
        return RowPoints(combine @ self.rows)

    def scores(self, coef: Floats) -> Floats:
        """Score all instances by the model with these coefficients, without intercept."""
        return self.rows @ (self.rows.T @ coef)

    def planes(self, coef: Floats, intercept: Floats) -> tuple[Floats, Floats]:
        """Weights and intercepts of models, for instances that are not centred.

        Parameters
        ----------
        coef : ndarray of shape (n_models, n_instances)
            Coefficients of the instances.
        intercept : ndarray of shape (n_models,)
            Intercepts for centred instances.

        Returns
        -------
        weights : ndarray of shape (n_models, n_features)
        intercept : ndarray of shape (n_models,)
        """
        weights = (self.rows.T @ coef.T).T
        return weights, intercept - weights @ self.centre


class KernelFeatures:
    """Instances in the feature space of a kernel; a small kernel matrix is stored.

    Parameters
    ----------
    instances : ndarray or CSR of shape (n_instances, n_features)
        The instances, in double precision.
    kernel : callable
        Function of two tables that returns the matrix of kernel values.
    """

    at_once = KEPT  # points at a time: the largest Gram matrix
    least_tol = 0.0

    def __init__(self, instances: Any, kernel: Callable[[Any, Any], Array]) -> None:
        self.rows, self.kernel = instances, kernel
        self._last: tuple[sparse.csr_array, GramPoints] | None = None

    def take(self, chosen: Ints) -> "KernelFeatures":
        """Select instances; a stored kernel matrix is reused."""
        part = KernelFeatures(self.rows[chosen], self.kernel)
        if self.rows.shape[0] <= KEPT:
            part._gram = self._gram[np.ix_(chosen, chosen)]
        return part

    def points(self, combine: sparse.csr_array) -> "GramPoints":
        """Compute the points, the rows of `combine` times the instances; cache the last ones."""
        last = self._last
        if last is None or last[0].shape != combine.shape or (last[0] != combine).nnz:
            self._last = last = combine, self._points(combine)
        return last[1]

    def _points(self, combine: sparse.csr_array) -> "GramPoints":
        if combine.nnz == combine.shape[0] and np.all(combine.sum(axis=1) == 1):  # of instances
            return GramPoints(self._between(combine.indices, combine.indices))
        used = np.unique(combine.indices)
        combine = combine[:, used]
        out = np.zeros((combine.shape[0], combine.shape[0]))
        for block in slices(len(used), max(1, BLOCK // max(1, len(used)))):
            part = self._between(used[block], used)
            out += combine[:, block] @ (combine @ part.T).T
        return GramPoints(out)

    def scores(self, coef: Floats) -> Floats:
        """Score all instances by the model with these coefficients, without intercept."""
        used = np.flatnonzero(coef)
        everybody = np.arange(self.rows.shape[0])
        blocks = slices(len(everybody), max(1, BLOCK // max(1, len(used))))
        return np.concatenate([self._between(everybody[b], used) @ coef[used] for b in blocks])

    def _between(self, left: Ints, right: Ints) -> Floats:
        if self.rows.shape[0] <= KEPT:
            return self._gram[np.ix_(left, right)]
        if len(right) == 0:
            return np.empty((len(left), 0))
        return np.asarray(self.kernel(self.rows[left], self.rows[right]), np.float64)

    @cached_property
    def _gram(self) -> Floats:
        return np.asarray(self.kernel(self.rows, self.rows), np.float64)


class RowPoints:
    """Points with coordinates."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def product(self, coef: Floats) -> Floats:
        """Multiply the Gram matrix with `coef`."""
        return self.rows @ (self.rows.T @ coef)

    def solve(self, chosen: Ints, ties: Ties, ridge: float, right: Floats) -> Floats:
        """Solve ``(ridge I + P K P) x = P right`` on chosen points, with the P of `Ties`."""
        rows = self.rows[chosen]
        if len(chosen) <= rows.shape[1]:
            return GramPoints(dense(rows @ rows.T)).solve(None, ties, ridge, right)
        # Fewer features than points: use the Woodbury identity.
        totals, right = ties.totals(rows), ties.untie(right)
        inner = dense(rows.T @ rows) - totals.T @ totals
        found = GramPoints(inner).solve(None, None, ridge, rows.T @ right)
        return (right - ties.untie(rows @ found)) / ridge

    @cached_property
    def mean_square(self) -> float:
        """Mean squared length of the points."""
        return mean_square(self.rows)


class GramPoints:
    """Points given by their Gram matrix."""

    def __init__(self, gram: Floats) -> None:
        self.gram = gram
        # The product with coefficients, called thousands of times for small matrices.
        self.product = gram.__matmul__ if len(gram) <= SMALL else self._product

    def _product(self, coef: Floats) -> Floats:
        used = np.flatnonzero(coef)
        if len(used) > len(coef) // 4:  # gathering rows costs more than multiplying zeros
            return self.gram @ coef
        return coef[used] @ self.gram[used]

    def solve(self, chosen: Ints | None, ties: Ties | None, ridge: float, right: Floats) -> Floats:
        """Solve ``(ridge I + P K P) x = P right`` on chosen points, with the P of `Ties`."""
        matrix = self.gram if chosen is None else self.gram[np.ix_(chosen, chosen)]
        both = np.vstack([matrix, right.T]).T  # a copy in LAPACK's order
        matrix, right = both[:, : len(both)], both[:, len(both) :]
        if ties is not None and len(ties.points):
            tied, starts, counts = ties.points, ties.starts, ties.counts
            rows = both[tied]
            means = np.add.reduceat(rows, starts) / counts[:, None]
            both[tied] = rows - np.repeat(means, counts, axis=0)
            columns = matrix[:, tied]
            means = np.add.reduceat(columns, starts, axis=1) / counts
            matrix[:, tied] = columns - np.repeat(means, counts, axis=1)
        matrix[np.diag_indices(len(matrix))] += ridge
        try:
            factor = linalg.cho_factor(matrix, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError as error:
            raise InputError(
                "the kernel is not positive semi-definite on the training instances: choose "
                "another kernel or other parameters."
            ) from error
        return linalg.cho_solve(factor, right, check_finite=False)

    @cached_property
    def mean_square(self) -> float:
        """Mean squared length of the points."""
        return float(np.diagonal(self.gram).mean())


Points = RowPoints | GramPoints
FeatureSpace = LinearFeatures | KernelFeatures


def selection(rows: Ints, n_instances: int) -> sparse.csr_array:
    """Make the matrix `combine` for points that are single instances.

    Parameters
    ----------
    rows : ndarray of int of shape (n_points,)
        The instance of each point.
    n_instances : int
        Number of instances.

    Returns
    -------
    CSR of shape (n_points, n_instances)
    """
    n = len(rows)
    return sparse.csr_array((np.ones(n), rows, np.arange(n + 1)), shape=(n, n_instances))


def check_costs(squared_length: float, **costs: float | None) -> None:
    """Reject costs for which multipliers, scores or their products would overflow.

    A multiplier is at most C and a score about C times the squared length of a row; the objective
    multiplies both.

    Parameters
    ----------
    squared_length : float
        Mean squared length of the rows.
    **costs : float or None
        The costs by parameter name.
    """
    for name, cost in costs.items():
        if cost is not None and not SMALLEST <= cost <= LARGEST:
            raise InputError(
                f"{name}={cost:.3g} is beyond the supported range ({SMALLEST:.0e} to "
                f"{LARGEST:.0e}): choose {name} nearer to 1."
            )
        if cost is not None and cost * squared_length > LARGEST:
            raise InputError(
                f"{name}={cost:.3g} with rows of a mean squared length of {squared_length:.3g} is "
                "beyond the range of floating-point numbers: scale the features "
                f"(StandardScaler), or lower {name}."
            )


def mean_square(rows: Any) -> float:
    """Mean squared length of rows.

    Parameters
    ----------
    rows : ndarray or CSR of shape (n_rows, n_features)
        The rows.

    Returns
    -------
    float
    """
    values = rows.data if sparse.issparse(rows) else rows
    with np.errstate(over="ignore"):
        return float(np.vdot(values, values)) / rows.shape[0]
