"""Centre and scale instances to unit variance."""

import numpy as np

from bagwise._common.types import Floats
from bagwise.exceptions import InputError


def unit_variance(X: Floats) -> tuple[Floats, Floats, float]:
    """Centre rows and divide them by one number, so that the mean variance of the features is 1.

    For methods that are equivariant to shifting and scaling all features, so that only rounding
    depends on origin and unit.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
        The rows; not all equal.

    Returns
    -------
    rows : ndarray of shape (n_rows, n_features)
        ``(X - origin) / unit``; a new array.
    origin : ndarray of shape (n_features,)
        The mean of the rows.
    unit : float
        The square root of the mean variance of the features.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.solvers.unit_variance import unit_variance
    >>> rows, origin, unit = unit_variance(np.array([[1e9], [3e9]]))
    >>> rows.tolist(), origin.tolist(), unit
    ([[-1.0], [1.0]], [2000000000.0], 1000000000.0)
    """
    if np.array_equal(X, np.broadcast_to(X[0], X.shape)):
        raise InputError(
            f"all {len(X)} instances are equal: nothing can be learned from their distances. Check "
            "the features, or add some that vary."
        )
    origin = X.mean(axis=0)
    rows = X - origin
    unit = float(np.sqrt(np.mean(np.square(rows))))
    rows /= unit
    return rows, origin, unit
