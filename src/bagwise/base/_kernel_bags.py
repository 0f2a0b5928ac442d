"""Nystroem features of instances, computed in blocks where the instances are stored."""

from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.kernel_approximation import Nystroem

from bagwise._common.memory import require_memory
from bagwise._common.types import Array, Floats, Ints
from bagwise.bags import Bags
from bagwise.base._kernel_machine import BLOCK, kernel_scores, nystroem_features, nystroem_of
from bagwise.compute import is_here, map_bags, memory_of_parts, over_partitions, to_numpy
from bagwise.compute.arrays import (
    centred_blocks,
    column_sums,
    empty,
    float64,
    gaussian,
    like,
    product,
)
from bagwise.compute.blocks import row_blocks
from bagwise.compute.mapped import release_pages
from bagwise.pairwise import kernel_width


def width_of(gamma: str | float, bags: Bags) -> float:
    """Kernel width as in `kernel_width`, also for instances in files, on devices or on workers.

    Parameters
    ----------
    gamma : {"half_scale", "scale", "auto"} or float
        The parameter of the estimator; "half_scale" is half of "scale".
    bags : Bags
        The training bags.

    Returns
    -------
    float
    """
    if gamma == "half_scale":
        return 0.5 * width_of("scale", bags)
    if gamma != "scale" or (is_here(bags) and not bags.is_mapped):
        return kernel_width(gamma, bags)
    counts, means, variances = over_partitions(_moments, bags).T
    mean = np.average(means, weights=counts)
    variance = np.average(variances + (means - mean) ** 2, weights=counts)
    return float(1.0 / (bags.n_features * variance)) if variance > 0 else 1.0


def _moments(bags: Bags) -> Floats:
    """Number, mean and variance of all values."""
    X, n_values = bags.instances, float(bags.n_instances * bags.n_features)
    mean = float(column_sums(X).sum()) / n_values
    blocks = centred_blocks(X, np.full(bags.n_features, mean), double=True)
    squares = sum(float((block**2).sum()) for _, block in blocks)
    return np.array([[n_values, mean, squares / n_values]])


def nystroem_of_bags(
    model: Any, gamma: float, n_landmarks: int, rng: np.random.RandomState, bags: Bags
) -> Nystroem:
    """Nystroem approximation of the kernel of a model; landmarks are drawn from the instances.

    Parameters
    ----------
    model : estimator
        A model with the parameter `kernel`.
    gamma : float
        Width of the kernel.
    n_landmarks : int
        Number of landmarks; all instances if there are fewer.
    rng : RandomState
        Source of the draws, which do not depend on where the bags are stored.
    bags : Bags
        The training bags.

    Returns
    -------
    Nystroem
    """
    n_landmarks = min(n_landmarks, bags.n_instances)
    chosen = np.sort(rng.choice(bags.n_instances, n_landmarks, replace=False))
    rows = rows_at(bags, chosen).astype(np.float64)
    origin = _origin(model.kernel, rows)
    nystroem = nystroem_of(model, gamma, n_landmarks, 0, rows if origin is None else rows - origin)
    if origin is not None:
        nystroem.components_ = nystroem.components_ + origin
    return nystroem


def _origin(kernel: Any, landmarks: Any) -> Floats | None:
    """Mean of the landmarks, if the kernel is a function of differences.

    It is subtracted first: distances are differences of squares, which lose all digits far from 0.
    """
    return landmarks.mean(axis=0) if kernel == "rbf" and not issparse(landmarks) else None


def rows_at(bags: Bags, chosen: Ints) -> Any:
    """Fetch rows of the instances; from a device or workers, with the bags that contain them.

    Parameters
    ----------
    bags : Bags
        The bags.
    chosen : ndarray of int64
        Positions of instances.

    Returns
    -------
    ndarray or CSR
    """
    if is_here(bags):
        return bags.rows(chosen)
    bag = np.searchsorted(bags.offsets, chosen, side="right") - 1
    few, which = np.unique(bag, return_inverse=True)
    some = bags[few]
    rows = some.offsets[:-1][which] + chosen - bags.offsets[bag]
    return over_partitions(lambda bags: to_numpy(bags.instances), some)[rows]


def kernel_bags(nystroem: Nystroem, bags: Bags) -> Bags:
    """Replace instances by their Nystroem features, where the bags are stored.

    Parameters
    ----------
    nystroem : Nystroem
        The fitted approximation.
    bags : Bags
        The bags. Features of a memory-mapped table are written to a temporary file.

    Returns
    -------
    Bags
    """
    n_landmarks = len(nystroem.component_indices_)
    n_instances = bags.n_instances
    if not bags.is_mapped:
        require_memory(
            8.0 * n_instances * n_landmarks,
            available=memory_of_parts(bags),
            purpose=f"{n_landmarks:,} Nystroem features of {n_instances:,} instances",
            remedy="use fewer components or kernel='linear', or map the instances from a file",
        )
    return map_bags(partial(_with_features, nystroem), bags)


def _with_features(nystroem: Nystroem, bags: Bags) -> Bags:
    n_landmarks = len(nystroem.component_indices_)
    out = empty(bags.source, (bags.n_instances, n_landmarks))
    for rows, block in row_blocks(bags, max(1, BLOCK // n_landmarks) * bags.n_features):
        out[rows] = _features(nystroem, block)
        release_pages(out)
    return bags.with_instances(out)


def kernel_product(nystroem: Nystroem, X: Any, coef: Array) -> Array:
    """Product of the Nystroem features of rows and weights, a block of rows at a time.

    Parameters
    ----------
    nystroem : Nystroem
        The fitted approximation.
    X : ndarray, CSR or tensor of shape (n_rows, n_features)
        The rows.
    coef : ndarray of shape (n_columns, n_landmarks)
        The weights.

    Returns
    -------
    ndarray of shape (n_rows, n_columns)
    """
    return kernel_scores(X, partial(_features, nystroem), coef).astype(coef.dtype, copy=False)


def _features(nystroem: Nystroem, rows: Any) -> Any:
    """Features of a block in double precision: the inverse root of the kernel amplifies rounding.

    A callable kernel takes numpy arrays: rows of a tensor are converted.
    """
    rows = float64(rows)
    if nystroem.kernel == "rbf":
        origin, landmarks = _origin("rbf", nystroem.components_), nystroem.components_
        if origin is not None and not issparse(rows):
            rows, landmarks = rows - like(origin, rows), landmarks - origin
        kernel = gaussian(rows, landmarks, nystroem.gamma)
        return product(kernel, nystroem.normalization_)
    return like(nystroem_features(nystroem, to_numpy(rows)), rows)
