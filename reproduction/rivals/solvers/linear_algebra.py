"""Dense kernel matrices, factors, and the number of cores."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from scipy import linalg, sparse

from bagwise._common.memory import require_memory
from bagwise._common.types import Array, Floats
from bagwise.loops.threads import library_cores
from bagwise.solvers.margin.feature_space import FeatureSpace, LinearFeatures, dense


def dense_gram(space: FeatureSpace) -> Floats:
    """Compute the full kernel matrix, of shape (n_rows, n_rows)."""
    n = space.rows.shape[0]
    require_memory(
        3 * 8.0 * n**2,
        purpose=f"the kernel matrix of {n:,} rows with two like it",
        remedy="fit part of the rows, or use the linear kernel",
    )
    if isinstance(space, LinearFeatures):
        return dense(space.rows @ space.rows.T)
    return np.asarray(space.kernel(space.rows, space.rows), np.float64)


def cholesky_solve(
    factor: Array, right: Array, *, lower: bool = False, overwrite: bool = False
) -> Array:
    """Solve a linear system, given a triangular factor."""
    return linalg.cho_solve((factor, lower), right, overwrite_b=overwrite, check_finite=False)


def cholesky_inverse(factor: Array) -> Array:
    """Inverse of a matrix, given its lower factor."""
    return linalg.cho_solve((factor, True), np.eye(len(factor)), check_finite=False)


def one_core_if_sparse(table: Any) -> AbstractContextManager[Any]:
    """Keep BLAS on one core if X is sparse, for methods that then use it for vectors only."""
    return library_cores(1) if sparse.issparse(table) else nullcontext()
