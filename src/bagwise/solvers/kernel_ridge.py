"""Ridge regression on a kernel or on features, with a free intercept."""

import numpy as np
from scipy import linalg

from bagwise._common.types import Floats

LEAST_REG = 1e-12  # relative to the mean diagonal: smaller values are lost to rounding


def kernel_ridge(gram: Floats, y: Floats, C: float) -> tuple[Floats, float]:
    r"""Minimise :math:`|f|^2 + C \sum_i (y_i - f(x_i) - b)^2` over functions of the kernel.

    The intercept b is free: it is the solution for the centred kernel and the centred targets.

    Parameters
    ----------
    gram : ndarray of shape (n, n)
        The kernel of all pairs; overwritten.
    y : ndarray of shape (n,)
        The targets.
    C : float
        Weight of the errors.

    Returns
    -------
    dual : ndarray of shape (n,)
        Weights of the points; their sum is 0.
    intercept : float
    """
    means = gram.mean(axis=0)
    centre = y.mean()
    gram -= means
    gram -= (means - means.mean())[:, None]
    gram.flat[:: len(y) + 1] += _ridge(np.trace(gram) / len(y), C)
    dual = linalg.solve(gram, y - centre, assume_a="pos", overwrite_a=True)
    dual -= dual.mean()
    return dual, float(centre - means @ dual)


def ridge(features: Floats, y: Floats, C: float) -> tuple[Floats, float]:
    """Minimise the objective of `kernel_ridge` over linear functions of features.

    Parameters
    ----------
    features : ndarray of shape (n, n_features)
        The features.
    y : ndarray of shape (n,)
        The targets.
    C : float
        Weight of the errors.

    Returns
    -------
    coef : ndarray of shape (n_features,)
    intercept : float
    """
    means, centre = features.mean(axis=0), y.mean()
    moments = features.T @ features - len(y) * np.outer(means, means)
    moments.flat[:: len(means) + 1] += _ridge(np.trace(moments) / len(y), C)
    coef = linalg.solve(moments, (y - centre) @ (features - means), assume_a="pos")
    return coef, float(centre - means @ coef)


def _ridge(size: float, C: float) -> float:
    """Term to add to the diagonal: 1 / C, but large enough to survive rounding."""
    return max(1 / C, LEAST_REG * max(size, 1.0))
