"""Machines on the kernel between bags: LIBSVM, and ridge regression with a free intercept.

LIBSVM gets a limit on its steps, and raises an error if its solution is not finite.
"""

import warnings
from typing import Any

import numpy as np
from scipy import linalg
from sklearn.exceptions import ConvergenceWarning

from bagwise._common.types import Floats
from bagwise.exceptions import InputError

# LIBSVM's default limit, ten million steps, takes minutes if features are of order one million.
LEAST_STEPS, STEPS_PER_ROW = 100_000, 100
LEAST_REG = 1e-12  # relative to the mean diagonal: smaller values are lost to rounding


def fit_libsvm(model: Any, table: Any, y: Any, weights: Any = None) -> bool:
    """Fit an `SVC` or `SVR` of scikit-learn with a limit on its steps.

    Parameters
    ----------
    model : SVC or SVR
        The model; its `max_iter` is set.
    table : ndarray or CSR of shape (n_rows, n_columns)
        The rows, or the kernel between them.
    y : ndarray of shape (n_rows,)
        The targets.
    weights : ndarray of shape (n_rows,), default=None
        Factors of the cost of each row.

    Returns
    -------
    bool
        Whether the tolerance of the model was reached.
    """
    model.random_state = 0  # LIBSVM draws nothing; None would advance NumPy's global state
    model.set_params(max_iter=LEAST_STEPS + STEPS_PER_ROW * table.shape[0])
    try:
        with warnings.catch_warnings(), np.errstate(over="ignore", invalid="ignore"):
            warnings.simplefilter("ignore", ConvergenceWarning)
            return bool(model.fit(table, y, weights).fit_status_ == 0)
    except ValueError as error:  # coefficients that are not finite, or values that are too large
        raise InputError(
            f"LIBSVM cannot represent the solution (C={model.C:.3g}, largest value "
            f"{abs(table).max():.3g}): scale the features, and choose C nearer to 1."
        ) from error


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
