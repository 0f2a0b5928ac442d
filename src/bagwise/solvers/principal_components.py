"""Principal components of a table that is read once, in blocks."""

from typing import Any, NamedTuple

import numpy as np

from bagwise._common.memory import require_memory
from bagwise._common.types import Array, Floats
from bagwise.bags import Bags
from bagwise.compute import row_blocks
from bagwise.compute.arrays import add_product, eigh, with_fixed_signs

ROUNDING = 4  # deviations up to this many units in the last place of the mean count as rounding


class Moments(NamedTuple):
    """Number, mean and scatter (sum of centred squares and products) of rows."""

    n: int
    mean: Floats
    scatter: Floats

    def merged(self, other: "Moments") -> "Moments":
        """Combine the moments of two sets of rows (Chan, Golub and LeVeque 1979)."""
        n = self.n + other.n
        step = other.mean - self.mean
        between = np.outer(step, step) * (self.n * other.n / n)
        return Moments(n, self.mean + step * (other.n / n), self.scatter + other.scatter + between)


class Components(NamedTuple):
    """Mean and scale of the features, and the directions of largest variance.

    Parameters
    ----------
    mean, scale : ndarray of shape (n_features,)
        Features are centred and divided by these.
    variances : ndarray of shape (n_features,)
        Variance along each direction, largest first.
    directions : ndarray of shape (n_features, n_features)
        A direction in each row; its largest entry in magnitude is positive.
    """

    mean: Floats
    scale: Floats
    variances: Floats
    directions: Floats


def row_moments(bags: Bags) -> Moments:
    """Mean and scatter of the instances, in one pass over blocks.

    Products within a block are in the precision of the instances, sums over blocks in double.

    Parameters
    ----------
    bags : Bags
        The bags: dense, in this process.

    Returns
    -------
    Moments
    """
    d = bags.n_features
    require_memory(
        4 * 8.0 * d * d,
        purpose=f"the covariance of {d:,} features",
        remedy="choose fewer features, for example by a random projection",
    )
    origin: Array | None = None
    sums, scatter = np.zeros(d), np.zeros((d, d), order="F")
    product = np.zeros((d, d), dtype=bags.dtype, order="F")
    for _, block in row_blocks(bags):
        if origin is None:  # squares about a point near the mean do not cancel
            origin = block.mean(axis=0, dtype=np.float64).astype(bags.dtype)
        centred = block - origin
        sums += centred.sum(axis=0, dtype=np.float64)
        add_product(product, centred)  # the upper triangle
        scatter += product
        product[:] = 0
    assert origin is not None
    n = bags.n_instances
    scatter -= np.outer(sums, sums) / n
    scatter = np.triu(scatter) + np.triu(scatter, 1).T
    return Moments(n, origin + sums / n, scatter)


def principal_components(moments: Moments, *, standardize: bool, dtype: Any) -> Components:
    """Directions of largest variance: eigenvectors of the covariance or correlation matrix.

    Parameters
    ----------
    moments : Moments
        The moments of the rows.
    standardize : bool
        Whether each feature is divided by its standard deviation first.
    dtype : dtype
        Dtype of the instances; deviations at the level of its rounding count as zero.

    Returns
    -------
    Components
    """
    n, mean, scatter = moments
    scale = np.ones(len(mean))
    if standardize:
        deviation = np.sqrt(np.maximum(np.diagonal(scatter), 0) / n)
        precision = np.finfo(dtype)
        rounding = ROUNDING * precision.eps * np.abs(mean) + precision.tiny
        scale = np.where(deviation > rounding, deviation, 1.0)
    covariance = scatter / np.outer(scale, scale) / max(n - 1, 1)
    variances, vectors = eigh(covariance)
    directions = with_fixed_signs(vectors).T[::-1]
    return Components(mean, scale, np.maximum(variances[::-1], 0), directions)
